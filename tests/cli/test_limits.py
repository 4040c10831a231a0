"""What is far too large, cut or secret on a command line is refused in one line, before anything is made."""

from __future__ import annotations

import pytest

from mnemon.experiments.sweep.storage import without_password
from mnemon.notation import MOST_CHARACTERS


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "batch_size=1000000000000"], "training.batch_size must be at most 1,000,000, not 1000000000000."),
        (
            ["--set", "batch_size=99999999999999999999"],
            "training.batch_size must be a whole number, not '99999999999999999999'.",
        ),
        (["--set", "target.hidden=[5,1000000000]"], "target.hidden must be at most 100,000, not 1000000000."),
        (["--set", f"target.hidden={[2] * 101}"], "target.hidden must hold at most 100 values, not 101."),
        (["--set", "chunk=1000000000"], "method.hypernet.chunk must be at most 100,000,000, not 1000000000."),
        (["--set", "epochs=1e300"], "training.epochs must be at most 1,000,000, not 1e+300."),
        (
            ["--set", "log_every=1000000000000"],
            "training.log_every must be at most 1,000,000,000, not 1000000000000.",
        ),
        (["--seeds", "1.5"], "--seeds takes a whole number, not '1.5'."),
        (["--seeds", "two"], "--seeds takes a whole number, not 'two'."),
        (["--seeds", "1000000"], "--seeds must be at most 100,000, not 1000000."),
        (["--seed", "1e3"], "--seed takes a whole number, not '1e3'."),
        (["--workers", "2.0"], "--workers takes a whole number, not '2.0'."),
    ],
)
def test_numbers_that_make_no_sense_are_refused(refused, tmp_path, words, message):
    assert refused("run", *words) == message
    assert not (tmp_path / "runs").exists()


def test_values_of_thousands_of_characters_are_not_echoed_whole(refused):
    for words in (
        ["--set", "steps=" + "9" * 5000],
        ["--set", "target.hidden=" + "[" * 5000],
        ["--" + "x" * 5000],
        ["y" * 5000],
    ):
        assert len(refused("run", *words)) < 1100


LONG = "x" * 20_000


@pytest.mark.parametrize(
    "words",
    [
        "run --out LONG", "run LONG", "run LONG.toml", "run --resume LONG", "run --data LONG", "run --device LONG",
        "run --on LONG", "run --seeds LONG", "run --set LONG", "run --LONG", "run LONG LONG", "compare LONG",
        "compare LONG.toml", "compare hat --out LONG", "compare hat --benchmark LONG", "compare hat --scenario LONG",
        "reproduce LONG", "reproduce table-1 --only LONG", "reproduce table-1 --also LONG",
        "reproduce fig-regression --budget smoke --out LONG", "reproduce table-1 --report LONG", "sweep LONG",
        "sweep LONG.toml", "sweep split-digits --out LONG", "sweep split-digits --storage LONG", "report LONG",
        "report RUN --out LONG", "report RUN --out LONG.html", "report RUN --out LONG/page.html", "show LONG",
        "list LONG", "presets LONG", "settings LONG", "settings split-digits LONG", "data --data LONG", "LONG",
    ],
)  # fmt: skip
def test_names_of_thousands_of_characters_are_refused_in_a_line_that_is_not_as_long(refused, finished, words):
    message = refused(*(word.replace("LONG", LONG).replace("RUN", str(finished)) for word in words.split()))
    assert len(message) < 1100


def test_a_study_needs_a_database(refused):
    assert refused("sweep", "split-digits", "--study", "mine") == (
        "--study names a study in a database: give its URL by --storage, or leave out --study."
    )


def test_a_space_of_too_many_networks_is_refused_at_once(refused, tmp_path):
    for layers in ("[1, 30]", "[10000000000]"):
        (tmp_path / "space.toml").write_text(
            f'preset = "split-digits"\n[search]\ntarget.hidden = {{layers = {layers}, widths = [10, 20, 30]}}\n'
        )
        assert "of 3 widths are more than 10,000: use fewer." in refused("sweep", "space.toml")


def test_a_list_of_too_many_choices_is_refused_at_once(refused, tmp_path):
    (tmp_path / "space.toml").write_text(f'preset = "split-digits"\n[search]\nbeta = {[0.1] * 10_001}\n')
    assert refused("sweep", "space.toml") == "space.toml: beta: choices must be at most 10,000, not 10,001."


def test_a_space_that_could_not_be_read_again_is_refused(refused, tmp_path, monkeypatch):
    monkeypatch.setitem(MOST_CHARACTERS, "TOML", 5000)
    choices = [[10] * 100] * 10  # as a file of mnemon's, with a line for each number, it is larger than what is read
    (tmp_path / "space.toml").write_text(f'preset = "split-digits"\n[search]\ntarget.hidden = {choices}\n')
    assert refused("sweep", "space.toml") == "The space space is too large to save: give fewer choices."
    assert [path.name for path in tmp_path.iterdir()] == ["space.toml"]


URLS = {
    "postgresql+psycopg://me:secret@127.0.0.1:1/db": "postgresql+psycopg://me:***@127.0.0.1:1/db",
    "postgresql+psycopg://me@127.0.0.1:1/db?password=secret": "postgresql+psycopg://me@127.0.0.1:1/db?password=***",
    "postgresql+psycopg://127.0.0.1:1/db?sslmode=disable&sslpassword=secret": "postgresql+psycopg://127.0.0.1:1/db?sslmode=disable&sslpassword=***",
}


@pytest.mark.parametrize("url", URLS)
def test_passwords_are_neither_shown_nor_kept(refused, url):
    message = refused("sweep", "split-digits", "--storage", url)
    assert message.startswith(f"The database {URLS[url]} cannot be reached: ")
    assert "secret" not in message
    assert without_password(url) == URLS[url]


@pytest.mark.parametrize(
    "words",
    [
        "sweep split-digits --storage URL", "sweep URL", "sweep split-digits URL", "run URL", "run --set URL",
        "run --set lr=URL", "run --beta URL", "run --storage URL", "run --out URL", "run --on URL", "run --seeds URL",
        "run --data URL", "compare URL", "show URL", "list URL", "presets URL", "settings toy URL",
        "report RUN --out URL", "reproduce table-1 --out URL", "URL", "run --URL",
    ],
)  # fmt: skip
def test_a_password_is_not_shown_wherever_its_url_is_typed(refused, finished, words):
    url = "postgresql+psycopg://me:sec@ret@127.0.0.1:1/db?password=covert"
    message = refused(*(word.replace("URL", url).replace("RUN", str(finished)) for word in words.split()))
    assert not [secret for secret in ("sec@", "ret@", "covert") if secret in message]


def test_a_password_in_a_word_that_is_no_url_is_not_shown(refused):
    message = refused("sweep", "split-digits", "--storage", "postgresql//me:secret@host?password=secret")
    assert "secret" not in message
