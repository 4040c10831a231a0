"""What a run leaves in its record: what it was tested on, and which mechanisms had no effect."""

from __future__ import annotations

import io
import itertools

import pytest
import tiny
import torch
from rich.console import Console

from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_run, build_stream, execute, load_run, new_folder
from mnemon.experiments.run_config import resolve
from mnemon.results.record import RunRecord
from mnemon.results.terminal.tables import summary
from mnemon.training.trainer import Stopped

PLACE = Compute("cpu")
SMALL = ("steps=3", "batch_size=8", "target.hidden=[6]", "n_tasks=2")
IDLE = (
    "The penalty on changes of important weights had no effect: "
    "'penalty' was 0 in every step from the second task on."
)


def config(method: str, *words: str):
    return resolve(load_preset("split-digits"), [f"method={method}", *tiny.words_of(method), *SMALL, *words])


def shown(record: RunRecord) -> str:
    text = io.StringIO()
    Console(file=text, width=200).print(summary([record]))
    return text.getvalue()


# Alarms


def test_a_mechanism_that_never_acted_is_in_the_record_and_in_the_table(tmp_path):
    record = execute(
        Job(0, config("online-ewc", "strength=1e-60"), 0, new_folder(tmp_path / "run")), RunContext(PLACE)
    )
    assert record.alarms[0] == IDLE
    kept = RunRecord.read(tmp_path / "run")
    assert kept.alarms == record.alarms
    assert f"alarm        {IDLE}" in shown(kept)


def test_a_task_that_was_not_learned_is_in_the_record(tmp_path):
    record = execute(
        Job(0, config("finetuned-target", "lr=1e-9"), 0, new_folder(tmp_path / "run")), RunContext(PLACE)
    )
    assert record.alarms[0].startswith("Task 1 ('0,1') was not learned: 50.56 after learning it;")


def test_a_run_that_was_stopped_remembers_what_acted_before(tmp_path):
    folder, calls = new_folder(tmp_path / "run"), itertools.count(1)
    # Stopped after the last step: whatever acted did so before the checkpoint.
    with pytest.raises(Stopped):
        execute(Job(0, config("online-ewc"), 0, folder), RunContext(PLACE, should_stop=lambda: next(calls) >= 6))
    assert not RunRecord.read(folder).finished
    assert IDLE not in execute(Job(0, config("online-ewc"), 0, folder), RunContext(PLACE)).alarms
    assert RunRecord.read(folder).finished


def test_a_run_under_way_raises_no_alarm(tmp_path):
    folder, calls = new_folder(tmp_path / "run"), itertools.count(1)
    with pytest.raises(Stopped):
        execute(
            Job(0, config("online-ewc", "strength=0"), 0, folder),
            RunContext(PLACE, should_stop=lambda: next(calls) >= 5),
        )
    assert RunRecord.read(folder).alarms == []


# Held-out data


def test_a_run_is_trained_and_tested_on_parts_of_the_training_data(tmp_path):
    plain, held = (build_stream(config("hypernet", *words), 0, PLACE) for words in ((), ("held_out=0.25",)))
    for whole, task in zip(plain.tasks, held.tasks, strict=True):
        parts = {"train": task.train, "held out": task.test, "whole": whole.train, "test": whole.test}
        rows = {name: {tuple(row) for row in part.inputs.tolist()} for name, part in parts.items()}
        assert rows["train"] | rows["held out"] == rows["whole"]
        assert not rows["held out"] & rows["test"]
        assert len(task.test) == round(0.25 * len(whole.train))
    execute(Job(0, config("hypernet", "held_out=0.25"), 0, new_folder(tmp_path / "run")), RunContext(PLACE))
    _, stream, _ = load_run(tmp_path / "run", PLACE)
    assert torch.equal(stream.tasks[1].test.inputs, held.tasks[1].test.inputs)


def test_the_table_says_that_the_test_data_were_not_used(tmp_path):
    record = execute(Job(0, config("hypernet", "held_out=0.25"), 0, new_folder(tmp_path / "run")), RunContext(PLACE))
    assert "Accuracy (%) on each task, tested on held-out training data" in " ".join(shown(record).split())
    assert record.config["training"]["held_out"] == 0.25


def test_a_share_that_leaves_no_example_is_refused_before_anything_is_written():
    with pytest.raises(
        UsageError, match=r"^A share of 1e-06 holds out 0 of the \d+ training examples of task '0,1'\.$"
    ):
        build_run(config("hypernet", "held_out=1e-6"), 0, PLACE)
