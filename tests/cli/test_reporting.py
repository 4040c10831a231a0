"""The report on the command line: written by commands that train, and by one of its own; TensorBoard beside it."""

from __future__ import annotations

import importlib.util
import itertools
import json
import webbrowser
from pathlib import Path

import pytest
from command_line import with_settings
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from mnemon import extras
from mnemon.cli.screen import ShellScreen
from mnemon.experiments.api.options import Options
from mnemon.experiments.artifacts import embedding_maps
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import new_jobs, resumed_jobs, run_jobs
from mnemon.results.figures import EmbeddingMap
from mnemon.training.trainer import Stopped


@pytest.fixture
def opened(monkeypatch) -> list[str]:
    """The addresses that were shown in a browser."""
    found: list[str] = []
    monkeypatch.setattr(webbrowser, "open", lambda address: found.append(address) or True)
    return found


def test_a_run_ends_with_a_report_and_says_so(mnemon, small, monkeypatch, tmp_path, opened):
    monkeypatch.delenv("MNEMON_NO_REPORT")
    outcome = mnemon("run", *small, "--out", "run", "--quiet", "--open")
    assert outcome.out.splitlines()[-1] == "Saved to run. To show it again: mnemon show run"
    assert opened == [(tmp_path / "run" / "report.html").as_uri()]
    assert "split-digits" in (tmp_path / "run" / "report.html").read_text()


def test_a_run_without_the_packages_hints_at_them(mnemon, finished, monkeypatch):
    monkeypatch.delenv("MNEMON_NO_REPORT")
    monkeypatch.setattr(extras, "missing", lambda extra, *modules: ["altair"])
    lines = mnemon("run", "--resume", finished).out.splitlines()
    assert lines[-2] == "For a page with figures beside the tables: pip install 'mnemon[report]'"
    assert lines[-1].startswith(f"Saved to {finished}. ")


def test_a_comparison_ends_with_a_report(mnemon, monkeypatch, tmp_path):
    monkeypatch.delenv("MNEMON_NO_REPORT")
    settings = ["--set", "steps=2", "--set", "n_tasks=2", "--quiet", "--workers", "1"]
    outcome = mnemon("compare", "joint", "finetuned-target", *settings, "--out", "c")
    assert outcome.out.splitlines()[-1] == "Saved to c. To show it again: mnemon show c"
    assert "Side by side: split-digits, cl1" in (tmp_path / "c" / "report.html").read_text()


def test_a_run_with_embeddings_of_two_numbers_has_a_map_in_its_report(mnemon, monkeypatch, tmp_path):
    monkeypatch.delenv("MNEMON_NO_REPORT")
    monkeypatch.setattr(embedding_maps, "SIDE", 3)
    words = with_settings("method.hypernet.embedding_size=2", "steps=4", "n_tasks=2", "target.hidden=[20]")
    outcome = mnemon("run", "split-digits", *words, "--seeds", "2", "--workers", "1", "--out", "run", "--quiet")
    assert outcome.out.count("Mapping the embedding space for the report …\n") == 1
    assert "at each point of the embedding space" in (tmp_path / "run" / "report.html").read_text()
    space = EmbeddingMap.read(tmp_path / "run" / "seed-0")
    assert (len(space.xs), list(space.accuracy)) == (3, ["0,1", "2,3"])
    assert EmbeddingMap.read(tmp_path / "run" / "seed-1") is None
    assert "Mapping" not in mnemon("run", "--resume", "run").out


def test_a_regression_has_no_map_but_its_predictions(mnemon, monkeypatch, tmp_path):
    monkeypatch.delenv("MNEMON_NO_REPORT")
    outcome = mnemon("run", "toy", *with_settings("steps=4"), "--out", "run", "--quiet")
    assert "Mapping" not in outcome.out
    assert (
        "Predictions after the last task, and true values, seed 0" in (tmp_path / "run" / "report.html").read_text()
    )


def test_a_report_of_its_own(mnemon, finished, tmp_path, opened, monkeypatch):
    outcome = mnemon("report", finished, "--out", "mine.html")
    assert (outcome.code, outcome.out) == (0, "Saved to mine.html\n")
    assert opened == []
    monkeypatch.setattr(webbrowser, "open", lambda address: False)
    outcome = mnemon("report", finished, "--open")
    assert outcome.out.splitlines() == [
        f"Saved to {finished}/report.html",
        f"There is no browser here; open {finished}/report.html in one.",
    ]


def test_bad_input_is_one_line(refused, finished, tmp_path):
    assert refused("report", "nowhere") == "There is no folder nowhere."
    assert refused("report").startswith("Name the folder of a run, of several seeds or of a comparison")
    (tmp_path / "empty").mkdir()
    assert refused("report", "empty") == "empty holds no run: there is no record.json in it or below it."
    facts = json.loads((finished / "record.json").read_text())
    (finished / "record.json").write_text(json.dumps({**facts, "format": 99}))
    assert "has format 99 and was written by a newer mnemon" in refused("report", finished)


def test_a_report_that_is_left_out_cannot_be_opened(refused, small, monkeypatch):
    unset = "--open shows the report: unset MNEMON_NO_REPORT, and leave out --no-report."
    assert refused("run", *small, "--open") == unset
    monkeypatch.delenv("MNEMON_NO_REPORT")
    assert refused("run", *small, "--no-report", "--open") == "--open shows the report: leave out --no-report."


# TensorBoard


def scalars(folder: Path) -> dict[str, list[tuple[int, float]]]:
    events = EventAccumulator(str(folder))
    events.Reload()
    return {tag: [(e.step, e.value) for e in events.Scalars(tag)] for tag in events.Tags()["scalars"]}


def test_events_hold_what_the_record_holds(mnemon, small, tmp_path):
    words = [*small, "--set", "log_every=10", "--out", "run", "--quiet", "--tensorboard"]
    assert mnemon("run", *words).code == 0
    found = scalars(tmp_path / "run")
    record = json.loads((tmp_path / "run" / "record.json").read_text())
    losses = [json.loads(line) for line in (tmp_path / "run" / "losses.jsonl").read_text().splitlines()]
    assert sorted(found) == [
        "accuracy/average", "accuracy/task_1", "accuracy/task_2", "accuracy/task_3", "loss/penalty", "loss/task_loss",
    ]  # fmt: skip
    assert found["loss/task_loss"] == [
        (20 * int(entry["task"]) + entry["step"], pytest.approx(entry["task_loss"])) for entry in losses
    ]
    rows = record["matrix"]
    assert found["accuracy/task_1"] == [(20 * (i + 1), pytest.approx(row[0])) for i, row in enumerate(rows)]
    assert found["accuracy/task_3"] == [(60, pytest.approx(rows[2][2]))]
    assert found["accuracy/average"][-1] == (60, pytest.approx(sum(rows[2]) / 3))


def test_events_stand_at_the_steps_that_were_made(mnemon, tmp_path):
    words = with_settings("epochs=0.5", "n_tasks=3", "target.hidden=[20]", "log_every=2")
    assert mnemon("run", "split-digits", *words, "--out", "run", "--quiet", "--tensorboard").code == 0
    losses = [json.loads(line) for line in (tmp_path / "run" / "losses.jsonl").read_text().splitlines()]
    made = [max(entry["step"] for entry in losses if entry["task"] == task) for task in range(3)]
    found = scalars(tmp_path / "run")
    assert [step for step, _ in found["accuracy/average"]] == list(itertools.accumulate(made))
    assert [step for step, _ in found["loss/task_loss"]] == [
        sum(made[: int(entry["task"])]) + entry["step"] for entry in losses
    ]


def test_events_of_a_resumed_run_are_those_of_one_that_never_stopped(tmp_path):
    settings = ("steps=20", "n_tasks=2", "target.hidden=[20]", "chunk=300", "log_every=5", "checkpoint_seconds=1000")
    config, compute = resolve(load_preset("split-digits"), settings), Compute("cpu", tensorboard=True)

    def run(folder: Path, jobs, stop_at: int) -> None:
        calls = itertools.count(1)
        run_jobs(jobs, RunContext(compute, should_stop=lambda: next(calls) >= stop_at))

    folder, jobs = new_jobs(config, range(1), tmp_path / "whole", compute)
    run(folder, jobs, 10**9)
    folder, jobs = new_jobs(config, range(1), tmp_path / "stopped", compute)
    with pytest.raises(Stopped):
        run(folder, jobs, 8)
    kept = (folder / "checkpoint.safetensors").read_bytes()
    with pytest.raises(Stopped):
        run(folder, resumed_jobs(folder), 10)
    (folder / "checkpoint.safetensors").write_bytes(kept)  # as if the process had been killed after step 17
    run(folder, resumed_jobs(folder), 10**9)
    assert len(list(folder.glob("events.out.tfevents.*"))) == 3
    assert scalars(folder) == scalars(tmp_path / "whole")


def test_without_tensorboard_it_is_said_how_to_get_it(refused, small, monkeypatch):

    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    said = "--tensorboard needs more packages (tensorboard): pip install 'mnemon[tensorboard]'."
    assert refused("run", *small, "--out", "run", "--tensorboard") == said


def test_how_to_go_on_names_tensorboard():
    options = Options(ShellScreen(), tensorboard=True)
    assert options.to_resume("run", Path("x")) == "mnemon run --resume x --tensorboard"
