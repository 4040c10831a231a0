"""Methods are compared by their classes, on tasks that are handed over as objects."""

from __future__ import annotations

import copy
import os
import pickle
import re
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from small_runs import FEW, QUIETLY

import mnemon
from mnemon.benchmarks import given
from mnemon.benchmarks.registry import BENCHMARKS
from mnemon.experiments.run_config import preset_of, resolve
from mnemon.learners.bounds import FinetunedTarget, Joint

SCRIPT = """
import mnemon, torch
from mnemon.learners.bounds import FinetunedTarget

@mnemon.register_method("mine")
class Mine(FinetunedTarget):
    pass

if __name__ == "__main__":
    x = torch.randn(60, 4)
    stream = mnemon.stream_from_arrays([(x, (x[:, i] > 0).long()) for i in range(2)])
    table = mnemon.compare([Mine, "joint"], stream, settings={"steps": 5}, workers=2, quiet=True, report=False)
    print(table["mine"][0].plugins)
"""


@pytest.fixture
def stream(monkeypatch) -> Iterator[mnemon.TaskStream]:
    """Two tasks; no other test knows them."""
    monkeypatch.setattr(given, "_GIVEN", {})
    before = set(BENCHMARKS)
    x = torch.randn(60, 4)
    yield mnemon.stream_from_arrays([(x, (x[:, i] > 0).long()) for i in range(2)], name="my tasks")
    for name in set(BENCHMARKS) - before:
        del BENCHMARKS[name]


@pytest.fixture(autouse=True)
def forget() -> Iterator[None]:
    yield
    given._packed.cache_clear()


def test_methods_are_compared_by_their_classes_on_a_stream(stream):
    steps = {"steps": 4}
    table = mnemon.compare([FinetunedTarget, (Joint, {"lr": 0.01})], stream, settings=steps, workers=1, **QUIETLY)
    (record,) = table["finetuned-target"]
    assert record.config["benchmark"] == {"name": "my-tasks"}
    assert record.task_names == ["1", "2"]
    assert table.methods == ["finetuned-target", "joint:lr=0.01"]


def test_a_stream_has_one_name_and_another_one_has_another(stream):
    assert given.give_name(stream) == given.give_name(stream) == "my-tasks"
    assert given.give_name(copy.copy(stream)) == "my-tasks-2"
    assert given.give_name(replace(stream, name="split-mnist")) == "split-mnist-2"


def test_a_stream_travels_with_a_config(stream, monkeypatch):
    config = resolve(*preset_of(given.give_name(stream)))
    sent = pickle.dumps(config)
    monkeypatch.setattr(given, "_GIVEN", {})  # as in another process
    del BENCHMARKS["my-tasks"]
    arrived = pickle.loads(sent)
    assert arrived.plain() == config.plain()
    there = arrived.benchmark.build(None, 0)
    assert torch.equal(there.tasks[1].train.inputs, stream.tasks[1].train.inputs)


def test_a_stream_that_cannot_travel_is_refused(stream):
    task = stream.tasks[0]
    changed = replace(task, train=replace(task.train, transform=lambda x: x))
    config = resolve(*preset_of(given.give_name(replace(stream, tasks=(changed,)))))
    with pytest.raises(mnemon.UsageError, match=r"^The tasks of 'my-tasks' cannot be sent to other"):
        pickle.dumps(config)


@pytest.mark.parametrize(
    ("methods", "benchmark", "message"),
    [
        ([3], None, "A method is a name, a class or (method, settings), not 3."),
        ([mnemon.HypernetLearner], 3, "The benchmark 3 is neither a name, a TaskStream nor registered: put @mnemon."),
        ([type("Mine", (Joint,), {})], None, "The method Mine is not registered: put @mnemon.register_method(NAME)"),
    ],
)
def test_what_is_neither_a_name_nor_registered_is_refused(methods, benchmark, message):
    with pytest.raises(mnemon.UsageError, match=f"^{re.escape(message)}"):
        mnemon.compare(methods, benchmark, settings=FEW, **QUIETLY)


def test_a_script_compares_its_own_method_on_its_own_tasks_in_two_processes(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    words = [sys.executable, str(Path("script.py"))]
    done = subprocess.run(words, cwd=tmp_path, env=environment, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == "['script']\n"
