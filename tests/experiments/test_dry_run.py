"""A dry run: sizes and times of any preset, and nothing is left behind."""

from __future__ import annotations

import io
import re
import sys
from dataclasses import replace

import pytest
import tiny
import torch
from rich.console import Console

from mnemon.experiments import dry_run
from mnemon.experiments.compute import Compute
from mnemon.experiments.dry_run import RunEstimate, estimate, shown
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner, build_stream
from mnemon.experiments.run_config import resolve
from mnemon.learners import LEARNERS
from mnemon.learners.base import Counts

PLACE = Compute("cpu")


@pytest.mark.parametrize("name", LEARNERS)
def test_every_method_can_be_estimated(name):
    scenario = "cl3" if name.startswith("hypernet-") else "cl1"
    words = [f"method={name}", f"scenario={scenario}", "target.hidden=[8]", "batch_size=8", *tiny.words_of(name)]
    found = estimate(resolve(load_preset("split-digits"), words), 0, PLACE)
    assert found.steps == (300,) * 5
    assert min(*found.step.values(), found.test) > 0
    assert found.memory > 2**20


def test_an_estimate_has_the_counts_and_the_tests_of_the_run():
    config = resolve(load_preset("split-digits"), ["epochs=2", "batch_size=100"])
    stream = build_stream(config, 0, PLACE)
    found = estimate(config, 0, PLACE)
    assert found.counts == build_learner(config, stream, 0).counts()
    assert found.steps == tuple(-(-2 * len(task.train) // 100) for task in stream.tasks)
    sizes = [len(task.test) for task in stream.tasks]
    assert found.n_tested == sum(sum(sizes[: i + 1]) for i in range(5))


def test_time_grows_evenly_between_the_tasks_in_which_it_was_taken():
    times = {0: 1.0, 1: 5.0, 3: 9.0, 4: 2.0}
    found = RunEstimate(Counts(1, 1, 1, 5), (10, 10, 20, 1, 1), 1, times, 0.0, 0, 0, "cpu", "of one core")
    assert found.training == 10 * 1 + 10 * 5 + 20 * 7 + 9 + 2


@pytest.mark.parametrize(("n_tasks", "timed"), [(1, [0]), (2, [0, 1]), (5, [0, 1, 3, 4])])
def test_steps_are_timed_in_tasks_that_differ_in_what_is_to_do(n_tasks, timed):
    config = resolve(load_preset("split-digits"), [f"n_tasks={n_tasks}", "target.hidden=[8]", "batch_size=8"])
    assert list(estimate(config, 0, PLACE).step) == timed


def test_names_and_settings_are_shown_and_memory_that_is_not_known_is_left_out(monkeypatch):
    assert dry_run._memory(torch.device("cpu")) > 2**20
    monkeypatch.setitem(sys.modules, "resource", None)  # as on Windows
    assert dry_run._memory(torch.device("cpu")) is None
    found = RunEstimate(Counts(1, 1, 1, 5), (10,), 1, {0: 1.0}, 0.0, 0, None, "cpu", "of one core")
    assert "memory so far" not in text_of(found)
    assert text_of(found).startswith("split-digits-joint, not run")
    assert re.search(r"settings\s+Preset split-digits with method=joint, training.steps=5\s*\n", text_of(found))
    assert re.search(r"memory so far\s+3 MB at most, on cpu", text_of(replace(found, memory=3 * 2**20)))


def text_of(found: RunEstimate) -> str:
    text = io.StringIO()
    config = resolve(load_preset("split-digits"), ["method=joint", "steps=5"])
    Console(file=text, width=120).print(shown(found, config))
    return text.getvalue()
