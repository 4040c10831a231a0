"""Splitting by classes: which images go where, and which requests cannot be met."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.benchmarks.sources import load
from mnemon.benchmarks.split import Pairs, Split, SplitDigits, SplitFashion, SplitMnist, class_order, split
from mnemon.benchmarks.task import TaskKind, names
from mnemon.errors import UsageError


def test_by_default_ten_classes_make_five_tasks_of_two(digits):
    stream = split(digits)
    assert names(stream.tasks) == ["0,1", "2,3", "4,5", "6,7", "8,9"]
    assert (stream.name, stream.kind) == ("split-digits", TaskKind.CLASSIFICATION)
    assert (stream.input_shape, stream.outputs_per_task) == ((64,), 2)


@settings(max_examples=25, deadline=None)
@given(classes_per_task=st.integers(1, 10), data=st.data())
def test_a_task_holds_all_images_of_its_classes_with_labels_of_its_own(digits, classes_per_task, data):
    n_tasks = data.draw(st.none() | st.integers(1, 10 // classes_per_task))
    stream = split(digits, classes_per_task, n_tasks)
    assert len(stream) == (n_tasks or 10 // classes_per_task)
    for i, task in enumerate(stream.tasks):
        for label in range(classes_per_task):
            original = digits.test_images[digits.test_labels == i * classes_per_task + label]
            assert torch.equal(task.test.inputs[task.test.targets == label], original.flatten(1))


def test_in_another_order_a_task_has_the_next_classes_of_that_order_with_labels_by_their_places(digits):
    stream = split(digits, 3, order=[7, 1, 4, 0, 9, 2, 3, 5, 6, 8])
    assert names(stream.tasks) == ["7,1,4", "0,9,2", "3,5,6"]
    for task, classes in zip(stream.tasks, ([7, 1, 4], [0, 9, 2], [3, 5, 6]), strict=True):
        for part, images, labels in (
            (task.train, digits.train_images, digits.train_labels),
            (task.test, digits.test_images, digits.test_labels),
        ):
            assert len(part) == sum(int((labels == original).sum()) for original in classes)
            for place, original in enumerate(classes):
                assert torch.equal(part.inputs[part.targets == place], images[labels == original].flatten(1))


@given(seed=st.integers(0, 2**63), n_classes=st.integers(1, 100))
def test_shuffled_classes_are_all_classes_and_the_same_for_the_same_seed(seed, n_classes):
    order = class_order(Pairs.SHUFFLED, n_classes, seed)
    assert sorted(order) == list(range(n_classes)) == class_order(Pairs.NATURAL, n_classes, seed)
    assert order == class_order(Pairs.SHUFFLED, n_classes, seed)


def test_shuffled_pairs_are_others_for_every_seed_the_first_included():
    streams = {seed: SplitDigits(pairs=Pairs.SHUFFLED).build(None, seed) for seed in range(5)}
    found = {seed: names(stream.tasks) for seed, stream in streams.items()}
    natural = names(SplitDigits().build(None, 3).tasks)
    assert len({tuple(tasks) for tasks in [*found.values(), natural]}) == 6
    for tasks in found.values():
        assert sorted(",".join(tasks).split(",")) == [str(digit) for digit in range(10)]
    few = SplitDigits(n_tasks=2, pairs=Pairs.SHUFFLED).build(None, 3)
    assert names(few.tasks) == found[3][:2], "fewer tasks are the first of more"


def test_batches_of_digits_are_sixteenths(digits):
    inputs, _ = split(digits).tasks[0].train.batch(slice(0, 50))
    assert inputs.is_floating_point()
    assert torch.equal(inputs * 16, (inputs * 16).round())
    assert (float(inputs.min()), float(inputs.max())) == (0, 1)


@pytest.mark.parametrize("config", [SplitDigits, SplitMnist, SplitFashion])
@pytest.mark.parametrize("asked", [-1, 0, 11])
def test_impossible_numbers_of_classes_are_refused(config, asked):
    message = f"classes_per_task is {asked}; a task can have 1 to 10 classes here."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        config(classes_per_task=asked)


@pytest.mark.parametrize(("classes_per_task", "n_tasks", "most"), [(2, 6, 5), (3, 4, 3), (2, 0, 5), (10, -1, 1)])
def test_impossible_numbers_of_tasks_are_refused(digits, classes_per_task, n_tasks, most):
    message = f"n_tasks is {n_tasks}; 10 classes give 1 to {most} tasks of {classes_per_task} classes."
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        split(digits, classes_per_task, n_tasks)
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        SplitDigits(classes_per_task, n_tasks)


@pytest.mark.parametrize(("config", "dataset"), [(SplitMnist, "mnist"), (SplitFashion, "fashion-mnist")])
def test_each_config_takes_its_own_data_set(mnist_files, fashion_files, tmp_path, config: type[Split], dataset):
    mnist_files.write(tmp_path / "mnist")
    fashion_files.write(tmp_path / "fashion-mnist")
    stream = config(classes_per_task=5).build(tmp_path, seed=0)
    base = load(dataset, tmp_path)
    assert torch.equal(stream.tasks[0].train.inputs, base.train_images[base.train_labels < 5].flatten(1))
    assert stream.input_shape == (16,)


def test_split_mnist_is_the_paper_s(mnist):
    stream = split(mnist)
    assert stream.input_shape == (784,)
    assert [len(task.train) for task in stream.tasks] == [12665, 12089, 11263, 12183, 11800]
    assert [len(task.test) for task in stream.tasks] == [2115, 2042, 1874, 1986, 1983]
    assert stream.tasks[0].train.inputs.dtype == torch.uint8
    inputs, targets = stream.tasks[4].test.batch(slice(0, 100))
    assert (float(inputs.min()), float(inputs.max())) == (0, 1)
    assert targets.unique().tolist() == [0, 1]
