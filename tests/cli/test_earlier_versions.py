"""Folders and models that an earlier version left, finished or not, still open, are resumed and reported."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import torch

from mnemon import load
from mnemon.config import flat
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.sweep import read_trials
from tests.earlier_versions.make import clouds, module

EARLIER = Path(__file__).parents[1] / "earlier_versions" / "november"
FOLDERS = {
    "replayed": "preset replay, seed 0",
    "finished": "split-digits hypernet, seed 0 Preset",
    "stopped": "seed 0 (1 not finished)",
    "study": "2 seeds, mean ± SEM",
    "study-stopped": "1 of 2 seeds (1 not finished)",
    "compared": "online-ewc",
    "compared-stopped": "online-ewc",
    "sweep": "1 of 3 trials",
}
"""With words that `mnemon show` shows of each."""
STOPPED = {
    "stopped": ("run", "finished"),
    "study-stopped": ("run", "study"),
    "compared-stopped": ("compare", "compared"),
}
"""What was stopped: the command that resumes it, and the folder of the same one that was not."""
MODELS = ["linear", "lora", "density", "stream"]


@pytest.fixture
def folders(tmp_path) -> Path:
    """A copy of all that the earlier version left."""
    return Path(shutil.copytree(EARLIER, tmp_path / "earlier"))


def test_all_folders_are_tested():
    assert {path.name for path in EARLIER.iterdir() if path.is_dir()} == FOLDERS.keys()
    assert {path.stem for path in EARLIER.glob("*.mnemon")} == set(MODELS)


@pytest.mark.parametrize("name", FOLDERS)
def test_a_folder_is_shown(mnemon, folders, name):
    outcome = mnemon("show", folders / name)
    assert (outcome.code, outcome.err) == (0, "")
    assert FOLDERS[name] in " ".join(outcome.out.split())


def test_all_are_listed(mnemon, folders):
    outcome = mnemon("list", folders)
    assert (outcome.code, outcome.err) == (0, "")
    assert all(name in outcome.out for name in FOLDERS)


def test_all_are_reported(mnemon, folders, tmp_path):
    outcome = mnemon("report", *(folders / name for name in FOLDERS), "--out", tmp_path / "page.html")
    assert outcome.code == 0, outcome.err
    assert "13 runs of 11 experiments" in (tmp_path / "page.html").read_text()


@pytest.mark.parametrize("name", STOPPED)
def test_what_was_stopped_is_resumed_and_ends_as_what_was_not(mnemon, folders, name):
    command, whole = STOPPED[name]
    outcome = mnemon(command, "--resume", folders / name, "--workers", 1, "--quiet")
    assert (outcome.code, outcome.err) == (0, "")
    runs = [path.relative_to(folders / whole) for path in find_runs(folders / whole)]
    assert runs
    for run in runs:
        ended, wanted = (RunRecord.read(folders / home / run) for home in (name, whole))
        assert ended.finished
        # Another processor may round otherwise: the accuracies are of 70 to 90 test images.
        assert ended.accuracy.final.value == pytest.approx(wanted.accuracy.final.value, abs=3)
        assert [list(terms) for terms in ended.losses] == [list(terms) for terms in wanted.losses]


def test_what_is_finished_stays_as_it_is_when_it_is_resumed(mnemon, folders):
    before = (folders / "finished" / "record.json").read_bytes()
    outcome = mnemon("run", "--resume", folders / "finished", "--quiet")
    assert (outcome.code, outcome.err) == (0, "")
    assert (folders / "finished" / "record.json").read_bytes() == before


def test_a_sweep_is_resumed(mnemon, folders):
    outcome = mnemon("sweep", "--resume", folders / "sweep", "--workers", 1, "--quiet")
    assert (outcome.code, outcome.err) == (0, "")
    trials = read_trials(folders / "sweep")
    assert [trial.state for trial in trials if trial.state != "failed"] == ["finished"] * 3
    assert trials[0].score == pytest.approx(1.4454146931568783)
    assert mnemon("run", folders / "sweep" / "best.toml", "--set", "steps=2", "--quiet").code == 0


def test_a_preset_runs(mnemon, folders):
    outcome = mnemon("run", folders / "preset.toml", "--set", "steps=2", "--quiet", "--out", "again")
    assert (outcome.code, outcome.err) == (0, "")
    now, then = (dict(flat(RunRecord.read(path).config)) for path in (Path("again"), folders / "replayed"))
    assert {name for name in then if name not in now} <= {
        "method.replay.dropout",
        "method.replay.keep_optimizer",
    }  # not used
    assert {name: now.get(name, then[name]) for name in then} == {**then, "training.steps": 2}


def test_a_space_is_searched(mnemon, folders):
    outcome = mnemon("sweep", folders / "space.toml", "--trials", 1, "--workers", 1, "--quiet", "--out", "again")
    assert (outcome.code, outcome.err) == (0, "")


@pytest.mark.parametrize("kind", MODELS)
def test_a_model_answers_as_it_did_and_learns_on(kind, tmp_path):
    model = load(EARLIER / f"{kind}.mnemon", module(kind))
    inputs = clouds(0, 8)[0]
    answers = json.loads((EARLIER / f"{kind}.json").read_text())
    assert model.tasks == list(answers)
    for task, outputs in answers.items():
        torch.testing.assert_close(model.predict(inputs, task=task).outputs, torch.tensor(outputs))
    model.learn(clouds(2), task="wednesday", steps=10, quiet=True)
    again = load(model.save(tmp_path / "again"), module(kind))
    for task in model.tasks:
        torch.testing.assert_close(
            again.predict(inputs, task=task).outputs, model.predict(inputs, task=task).outputs, rtol=0, atol=0
        )
