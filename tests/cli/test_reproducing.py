"""Tables and figures of the paper from the command line: run, stopped, gone on with, listed, reported, refused."""

from __future__ import annotations

import csv
import io
import itertools
import json
import shutil
from contextlib import contextmanager
from pathlib import Path

import pytest
from command_line import contents

from mnemon.benchmarks import download, sources
from mnemon.experiments import control
from mnemon.experiments.reproduce import recipe
from mnemon.results.record import RECORD

SMOKE = ("--budget", "smoke", "--workers", 1, "--quiet")
QUICK = """
[smoke.toy-regression]
settings = ["steps=20", "n_test=20"]
cost = "1 s"

[short.toy-regression]
settings = ["steps=20", "n_test=20"]

[smoke.split-mnist]
settings = ["benchmark=split-digits", "target.hidden=[10]", "n_tasks=2", "chunk=2000", "steps=5", "batch_size=16"]
cost = "1 s"
"""


@pytest.fixture(autouse=True)
def quick(tmp_path, monkeypatch) -> None:
    """The real recipes, at smaller budgets than the real ones."""
    folder = tmp_path / "recipes"
    folder.mkdir()
    for path in recipe.FOLDER.glob("*.toml"):
        (folder / path.name).write_text(path.read_text().replace("steps=12000", "steps=20"))
    (folder / "budgets.toml").write_text(QUICK)
    monkeypatch.setattr(recipe, "FOLDER", folder)


def test_recipes_are_run_and_shown_beside_what_was_published(mnemon):
    outcome = mnemon("reproduce", "fig-regression", "fig-embedding-2d", *SMOKE)
    assert outcome.code == 0, outcome
    assert outcome.out.startswith(
        "fig-regression: 3 runs per seed, about 3 s on one core\n"
        "fig-embedding-2d: 1 run per seed, about 1 s on one core\n"
        "Budget smoke: 0 runs are done, 4 are left, about 4 s with 1 at a time.\n"
    )
    assert "not comparable" in outcome.out
    assert "In all: 1 not comparable, 3 no number published." in outcome.out
    assert outcome.out.endswith("Saved to runs/reproduce\n")
    out = Path("runs/reproduce")
    assert sorted(path.name for path in (out / "runs").iterdir()) == [
        "split-mnist@smoke+method.hypernet.embedding_size=2", "toy-finetuned-hypernet@smoke", "toy@smoke",
        "toy@smoke+method=joint",
    ]  # fmt: skip
    rows = list(csv.DictReader(io.StringIO((out / "fig-regression" / "predictions.csv").read_text())))
    assert len(rows) == 3 * 3 * 20
    assert (out / "fig-regression" / "predictions.svg").exists()
    assert (out / "fig-embedding-2d" / "task-2.svg").exists()

    runs = contents(out / "runs")
    again = mnemon("reproduce", "fig-regression", "fig-embedding-2d", *SMOKE)
    assert "Budget smoke: 4 runs are done, 0 are left.\n" in again.out
    assert contents(out / "runs") == runs


def test_ctrl_c_saves_and_says_how_to_go_on(mnemon, monkeypatch):
    calls = itertools.count(1)

    @contextmanager
    def soon():
        yield lambda: next(calls) == 75

    with monkeypatch.context() as stopped:
        stopped.setattr(control, "stop_on_signal", soon)
        outcome = mnemon("reproduce", "fig-regression", *SMOKE, "--out", "my out")
    assert outcome.code == 130
    assert outcome.out.splitlines()[-1] == (
        "Stopped; everything is saved. Resume with: mnemon reproduce fig-regression --budget smoke --out 'my out' "
        "--workers 1"
    )
    resumed = mnemon("reproduce", "fig-regression", *SMOKE, "--out", "my out")
    assert resumed.code == 0
    assert "Budget smoke: 1 runs are done, 2 are left (1 of them begun), about 2 s with 1 at a time.\n" in resumed.out


def test_a_run_that_fails_is_named_and_the_others_have_their_table(mnemon):
    path = recipe.FOLDER / "fig-regression.toml"
    text = path.read_text().replace('["method=joint"]', '["method=joint", "lr=1e30"]')
    path.write_text(text)
    outcome = mnemon("reproduce", "fig-regression", *SMOKE)
    assert outcome.code == 2
    assert outcome.err.startswith("mnemon: toy@smoke+method=joint+lr=1e30, seed 0: ")
    assert "2 of 3" not in outcome.err
    rows = list(csv.DictReader(io.StringIO(Path("runs/reproduce/fig-regression/cells.csv").read_text())))
    assert [row["n"] for row in rows] == ["1", "0", "1"]


def test_runs_in_other_folders_count(mnemon):
    mnemon("run", "toy", "--set", "steps=20", "--set", "n_test=20", "--out", "mine", "--quiet")
    outcome = mnemon("reproduce", "fig-regression", *SMOKE, "--also", "mine")
    assert "Budget smoke: 1 runs are done, 2 are left" in outcome.out


def test_a_report_is_written_from_what_was_run(mnemon):
    mnemon("reproduce", "fig-regression", *SMOKE)
    outcome = mnemon("reproduce", "fig-regression", "fig-beta", "--budget", "smoke", "--report", "it.md")
    assert outcome.out == "1 not comparable, 2 no number published. Saved to it.md\n"
    text = Path("it.md").read_text()
    assert "## fig-regression" in text
    assert "| smoke | not comparable: other protocol |" in text
    assert "Other protocol, here and there: benchmark.n_test (20 and 100), training.steps (20 and 4000)." in text
    assert "No record here: beta 0.0005 HNET, beta 0.01 HNET, beta 1 HNET." in text


def test_a_report_can_be_written_again_from_the_records_that_were_kept(mnemon):
    mnemon("reproduce", "fig-regression", *SMOKE)
    words = ("reproduce", "fig-regression", "--budget", "smoke", "--report", "it.md")
    mnemon(*words, "--keep", "records")
    assert set(contents(Path("records"))) == {
        f"{name}/seed-0/{file}"
        for name in ("toy-finetuned-hypernet@smoke", "toy@smoke", "toy@smoke+method=joint")
        for file in ("config.toml", "record.json")
    }
    first = Path("it.md").read_text()
    shutil.rmtree("runs")
    mnemon(*words, "--also", "records")
    assert Path("it.md").read_text() == first


def test_only_the_cells_that_fit_are_run(mnemon):
    outcome = mnemon("reproduce", "fig-regression", "fig-embedding-2d", "--only", "[ac] *", *SMOKE)
    assert (
        "fig-regression: 2 runs per seed, about 2 s on one core\nBudget smoke: 0 runs are done, 2 are " in outcome.out
    )
    assert sorted(path.name for path in Path("runs/reproduce/runs").iterdir()) == [
        "toy-finetuned-hypernet@smoke", "toy@smoke",
    ]  # fmt: skip


@pytest.mark.parametrize("words", [[], ["--list"], ["--budget", "smoke"], ["--out", "elsewhere", "--workers", 2]])
def test_without_a_name_nothing_is_started_and_the_recipes_are_listed_with_their_costs(mnemon, words):
    outcome = mnemon("reproduce", *words)
    lines = outcome.out.splitlines()
    assert (outcome.code, outcome.err) == (0, "")
    assert [line for line in lines[:-1] if not line.startswith(" ")] == recipe.names()
    assert "Time on one core: paper 2.9 weeks, short " in outcome.out
    assert lines[-1] == (
        "Nothing was started. To start one: mnemon reproduce table-1 --budget short "
        "(all of them: mnemon reproduce all)."
    )
    assert [path.name for path in Path().iterdir()] == ["recipes"]


def test_all_are_run_by_a_word(mnemon, monkeypatch):
    for path in recipe.FOLDER.glob("*.toml"):
        if path.stem not in ("budgets", "fig-regression", "fig-embedding-2d"):
            path.unlink()
    outcome = mnemon("reproduce", "all", *SMOKE)
    assert outcome.code == 0
    assert "fig-embedding-2d: 1 run per seed, about 1 s on one core\nfig-regression: 3 runs per seed" in outcome.out
    assert "Budget smoke: 0 runs are done, 4 are left, " in outcome.out
    assert "Nothing was started" not in outcome.out


@pytest.fixture
def without_data(monkeypatch, tmp_path) -> None:
    """No data set but the digits: the cache is empty, and there is no network."""

    def fetch(url: str, path: Path, most: int) -> None:
        raise OSError("no network")

    monkeypatch.setattr(sources, "cache_folder", lambda: tmp_path / "cache")
    monkeypatch.setattr(download, "fetch", fetch)


def test_a_recipe_whose_data_are_missing_is_skipped_with_the_reason_and_the_others_run(mnemon, without_data):
    words = ("reproduce", "fig-embedding-2d", "fig-regression", "--budget", "short", "--workers", 1, "--quiet")
    outcome = mnemon(*words)
    assert (outcome.code, outcome.err) == (0, "")
    skipped = "fig-embedding-2d: skipped: no data for split-mnist\nsplit-mnist: MNIST is not in "
    assert outcome.out.count(skipped) == 2  # before the others run, and when they are done
    assert "\nBudget short: 0 runs are done, 3 are left, " in outcome.out
    assert "In all: 1 not comparable, 2 no number published." in outcome.out
    assert Path("runs/reproduce/fig-regression/table.txt").exists()
    assert not Path("runs/reproduce/fig-embedding-2d").exists()
    assert not list(Path("runs/reproduce/runs").glob("split-mnist*"))
    # What was left out is run as soon as its data are there, and only that.
    again = mnemon(*words)
    assert "Budget short: 3 runs are done, 0 are left.\n" in again.out


def test_of_a_recipe_that_lacks_some_data_the_rest_is_run(mnemon, without_data):
    path = recipe.FOLDER / "fig-regression.toml"
    cells = '  { row = "d", column = "digits", preset = "split-mnist" },\n]'
    path.write_text("".join(path.read_text().rpartition("]")[:1]) + cells)
    outcome = mnemon("reproduce", "fig-regression", "--only", "[ad] *", "--budget", "short", "--quiet")
    assert outcome.code == 0
    assert "fig-regression: 1 of 2 cells skipped: no data for split-mnist\n" in outcome.out
    assert "Budget short: 0 runs are done, 1 are left, " in outcome.out
    assert "d digits" in outcome.out
    assert "In all: 1 not comparable, 1 not run." in outcome.out


def test_where_all_data_are_missing_the_reason_is_the_error(refused, without_data):
    message = refused("reproduce", "table-1", "fig-embedding-2d", "--budget", "short")
    assert message.startswith("MNIST is not in ")
    assert not Path("runs").exists()


def test_a_data_folder_that_is_missing_is_refused_and_not_skipped(refused):
    message = refused("reproduce", "fig-regression", "--data", "nowhere", *SMOKE)
    assert message.startswith("The data folder 'nowhere' (--data) does not exist.")
    assert [path.name for path in Path().iterdir()] == ["recipes"]


def test_a_recipe_whose_network_is_still_to_come_says_so(mnemon, monkeypatch):
    known = {name: preset for name, preset in recipe.presets().items() if not name.startswith("cifar-")}
    monkeypatch.setattr(recipe, "presets", lambda: known)
    recipe._load.cache_clear()
    outcome = mnemon("reproduce", "fig-cifar", "--budget", "short")
    assert outcome.code == 0
    assert "fig-cifar: waiting for its network: there is no preset cifar-resnet32," in outcome.out
    assert "In all: 8 waiting for a preset." in outcome.out


def test_a_recipe_that_a_budget_leaves_out_says_so(mnemon):
    outcome = mnemon("reproduce", "table-hat", "--only", "P10 100, 100 HNET", *SMOKE)
    assert "table-hat: not part of the budget smoke\n" in outcome.out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["fig-bata"], "Unknown recipe 'fig-bata'. Did you mean 'fig-beta'? Choose one of: table-1, "),
        (["table-1", "--budget", "tiny"], "Unknown budget 'tiny'. Choose one of: paper, short, smoke."),
        (["table-1", "--budget", "sort"], "Unknown budget 'sort'. Did you mean 'short'? Choose one of: paper, "),
        (["table-1", "--seeds", "0"], "--seeds must be at least 1, not 0."),
        (["table-1", "--workers", "0"], "--workers must be at least 1, not 0."),
        (["table-1", "--also", "nowhere"], "There is no folder nowhere."),
        (["table-1", "--also", "recipes"], "recipes holds no run: there is no record.json in it or below it."),
        (
            ["table-1", "--report", "it.md"],
            "There is no finished run of these recipes here: run them first, or name ",
        ),
        (["table-1", "--keep", "records"], "--keep goes with --report: it keeps the records that the report is "),
        (
            ["fig-regression", "fig-embedding-2d", "--only", "X*", "--only", "Y"],
            "No cell of fig-regression, fig-embedding-2d fits 'X*' or 'Y'. Their names are a hypernetwork, b all "
            "tasks at once, c fine-tuning, S-CL1 HNET, 2-D embeddings.",
        ),
        (["table-1", "--only", "X*"], "No cell of table-1 fits 'X*'. Their names are P10-CL1 EWC, P10-CL1 SI, "),
        (["table-1", "--device", "abacus"], "Unknown device 'abacus'. Choose one of: "),
        (
            ["table-1", "--out", "s3://b/x"],
            "--out s3://b/x is a URL: `mnemon reproduce` resumes what is in a folder. Name one, and copy "
            "it when all is done.",
        ),
    ],
)
def test_what_is_wrong_is_said_in_one_line(refused, words, message):
    assert refused("reproduce", *words).startswith(message)
    assert [path.name for path in Path().iterdir()] == ["recipes"]


def test_a_record_of_a_newer_version_is_refused(mnemon, refused):
    mnemon("reproduce", "fig-embedding-2d", *SMOKE)
    path = next(Path("runs").rglob(RECORD))
    path.write_text(json.dumps({**json.loads(path.read_text()), "format": 99}))
    assert "has format 99 and was written by a newer mnemon" in refused("reproduce", "fig-embedding-2d", *SMOKE)
