"""Split CIFAR: which classes a task has, and that images stay bytes in memory."""

from __future__ import annotations

import pytest
import torch

from mnemon.benchmarks.split_cifar import Scaling, SplitCifar, SplitCifar100
from mnemon.errors import UsageError


@pytest.fixture
def folder(cifar_files, tmp_path):
    for name, tiny in cifar_files.items():
        tiny.write(tmp_path / name)
    return tmp_path


def test_cifar_10_comes_first_and_then_ten_classes_at_a_time(folder, cifar_files):
    stream = SplitCifar().build(folder, 0)
    names = ["cifar-10: 0-9", *(f"cifar-100: {i}0-{i}9" if i else "cifar-100: 0-9" for i in range(5))]
    assert [task.name for task in stream.tasks] == names
    assert [len(task.train) for task in stream.tasks] == [100, 20, 20, 20, 20, 20]
    assert (stream.input_shape, stream.outputs_per_task) == ((3, 32, 32), 10)
    for task in stream.tasks:
        assert task.train.targets.unique().tolist() == task.test.targets.unique().tolist() == list(range(10))
        assert task.train.inputs.dtype == task.test.inputs.dtype == torch.uint8
        assert task.train.augment is not None
        assert task.test.augment is None
    # The third task's first image is the first one of a class from 10 to 19.
    content = cifar_files["cifar-100"].contents["train.bin"]
    rows = [content[3074 * i : 3074 * (i + 1)] for i in range(200)]
    first = next(row for row in rows if 10 <= row[1] < 20)
    third = stream.tasks[2].train
    assert third.inputs[0].numpy().tobytes() == first[2:]
    assert int(third.targets[0]) == first[1] - 10


def test_cifar_100_alone_has_ten_tasks(folder):
    stream = SplitCifar100().build(folder, 0)
    assert [task.name for task in stream.tasks][::9] == ["cifar-100: 0-9", "cifar-100: 90-99"]
    assert len(stream) == 10


@pytest.mark.parametrize(("config", "most"), [(SplitCifar, 11), (SplitCifar100, 10)])
def test_the_number_of_tasks_can_be_chosen(config, most, folder):
    assert len(config(n_tasks=3).build(folder, 0)) == 3
    assert len(config(n_tasks=most).build(folder, 0)) == most
    for wrong in (0, most + 1):
        with pytest.raises(UsageError, match=f"^n_tasks is {wrong}; there are classes for 1 to {most} tasks\\.$"):
            config(n_tasks=wrong)


def test_one_task_needs_no_cifar_100(cifar_files, tmp_path):
    cifar_files["cifar-10"].write(tmp_path / "cifar-10")
    assert len(SplitCifar(n_tasks=1).build(tmp_path, 0)) == 1


def test_values_are_standardised_or_from_0_to_1(folder):
    unit = SplitCifar(n_tasks=1, augment=False, scaling=Scaling.UNIT).build(folder, 0).tasks[0]
    assert unit.train.augment is None
    values = unit.test.batch(slice(None))[0]
    assert 0 <= values.min() < 0.01 < 0.99 < values.max() <= 1
    standard = SplitCifar(n_tasks=1).build(folder, 0).tasks[0].test.batch(slice(None))[0]
    assert -2.1 < standard.min() < -1.5 < 1.5 < standard.max() < 2.2
