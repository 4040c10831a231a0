"""What holds for every benchmark that needs no data from outside."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from mnemon.benchmarks.registry import BENCHMARKS
from mnemon.benchmarks.task import TaskKind, TaskStream
from mnemon.errors import UsageError

EMBEDDED = ("toy-regression", "split-digits", "permuted-digits")


@pytest.fixture(params=EMBEDDED)
def name(request) -> str:
    return request.param


@pytest.fixture
def stream(name) -> TaskStream:
    return BENCHMARKS[name]().build(None, 0)


def test_there_are_three_benchmarks_that_need_no_data():
    assert [n for n in BENCHMARKS if not n.endswith(("mnist", "fashion", "cifar", "cifar-100"))] == list(EMBEDDED)


def test_every_task_has_examples_of_the_streams_shapes_and_a_name_of_its_own(stream):
    assert len({task.name for task in stream.tasks}) == len(stream) > 1
    for task in stream.tasks:
        for examples in (task.train, task.test):
            inputs, targets = examples.batch(torch.arange(min(50, len(examples))))
            assert tuple(inputs.shape[1:]) == stream.input_shape
            assert inputs.dtype == torch.get_default_dtype()
            assert inputs.isfinite().all()
            if stream.kind is TaskKind.CLASSIFICATION:
                assert 0 <= targets.min() <= targets.max() < stream.outputs_per_task
            else:
                assert targets.shape[1:] == (stream.outputs_per_task,)


def test_the_same_seed_gives_the_same_stream(name, stream):
    again = BENCHMARKS[name]().build(None, 0)
    for one, other in zip(stream.tasks, again.tasks, strict=True):
        assert one.name == other.name
        for a, b in ((one.train, other.train), (one.test, other.test)):
            for x, y in zip(a.batch(slice(0, 20)), b.batch(slice(0, 20)), strict=True):
                assert torch.equal(x, y)


@pytest.mark.parametrize("kind", [torch.int32, torch.uint8, torch.float32])
def test_labels_of_another_type_are_refused_with_the_remedy(kind):
    stream = BENCHMARKS["split-digits"]().build(None, 0)
    task = stream.tasks[1]
    odd = replace(task, test=replace(task.test, targets=task.test.targets.to(kind)))
    with pytest.raises(UsageError) as error:
        replace(stream, tasks=(stream.tasks[0], odd))
    assert str(error.value) == (
        f"Labels of task '2,3', test set must be int64, not {str(kind).removeprefix('torch.')}: "
        "convert them with .long()."
    )
