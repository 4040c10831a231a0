"""What is far too large, cut or secret on a command line is refused in one line, before anything is made."""

from __future__ import annotations

import pytest

from mnemon.experiments.sweep.storage import without_password


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


LONG = "a" * 5000


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["run", LONG], "Unknown preset 'aaa"),
        (["run", f"{LONG}.toml"], "There is no preset file aaa"),
        (["run", "--out", LONG], "Could not make the folder aaa"),
        (["run", "--out", f"{LONG}/run"], "Could not make the folder aaa"),
        (["run", "--resume", LONG], "There is no folder aaa"),
        (["run", "split-mnist", "--data", LONG], "The data folder 'aaa"),
        (["compare", LONG], "Unknown method 'aaa"),
        (["compare", f"{LONG}.toml"], "There is no preset file aaa"),
        (["compare", "hypernet", "--benchmark", LONG], "Unknown preset 'aaa"),
        (["compare", "hypernet", "--benchmark", f"{LONG}.toml"], "There is no preset file aaa"),
        (["compare", "--resume", LONG], "There is no folder aaa"),
        (["sweep", LONG], "Unknown space 'aaa"),
        (["sweep", f"{LONG}.toml"], "The space file aaa"),
        (["sweep", "split-digits", "--out", LONG], "Could not make the folder aaa"),
        (["sweep", "--resume", LONG], "There is no folder aaa"),
        (["reproduce", LONG], "Unknown recipe 'aaa"),
        (["reproduce", "fig-regression", "--budget", "smoke", "--out", LONG], "Could not make the folder aaa"),
        (["reproduce", "fig-regression", "--report", "x.md", "--out", LONG], "There is no finished run"),
        (["reproduce", "fig-regression", "--report", "x.md", "--also", LONG], "There is no folder aaa"),
        (["settings", LONG], "Unknown preset 'aaa"),
        (["settings", f"{LONG}.toml"], "There is no preset file aaa"),
        (["show", LONG], "There is no folder aaa"),
        (["report", LONG], "There is no folder aaa"),
    ],
    ids=lambda words: " ".join(word[:10] for word in words) if isinstance(words, list) else "",
)
def test_names_that_are_too_long_for_any_file_are_refused(refused, tmp_path, words, message):
    said = refused(*words)
    assert said.startswith(message)
    assert len(said) < 1100
    assert not list(tmp_path.iterdir())


def test_a_report_with_a_name_that_is_too_long_is_refused(refused, finished):
    before = sorted(path.name for path in finished.iterdir())
    assert refused("report", finished, "--out", LONG).startswith("A report is an HTML file: --out must be a folder")
    assert refused("report", finished, "--out", f"{LONG}.html").startswith("Could not write aaa")
    assert refused("report", finished, "--out", f"{LONG}/x.html").startswith("There is no folder aaa")
    assert sorted(path.name for path in finished.iterdir()) == before


def test_a_study_needs_a_database(refused):
    assert refused("sweep", "split-digits", "--study", "mine") == (
        "--study names a study in a database: give its URL by --storage, or leave out --study."
    )


def test_a_space_of_too_many_networks_is_refused_at_once(refused, tmp_path):
    for layers in ("[1, 30]", "[10000000000]"):
        (tmp_path / "space.toml").write_text(
            f'preset = "split-digits"\n[search]\ntarget.hidden = {{layers = {layers}, widths = [10, 20, 30]}}\n'
        )
        assert "of 3 widths are more than 10,000: name fewer." in refused("sweep", "space.toml")


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


def test_a_password_in_a_word_that_is_no_url_is_not_shown(refused):
    message = refused("sweep", "split-digits", "--storage", "postgresql//me:secret@host?password=secret")
    assert "secret" not in message
