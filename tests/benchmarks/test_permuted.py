"""Permuting pixels: what tasks share, what tells them apart, and how both move to another device."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.benchmarks.permuted import Permute, PermutedDigits, PermutedMnist, permutation, permuted
from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError

EVERY = slice(None)


def test_the_first_task_has_the_pixels_as_they_are(digits):
    inputs, targets = permuted(digits, 3, padding=0).tasks[0].train.batch(EVERY)
    assert torch.equal(inputs, digits.train_images.flatten(1))
    assert torch.equal(targets, digits.train_labels)


@settings(max_examples=20, deadline=None)
@given(seed=st.integers(0, 2**32), padding=st.integers(0, 3), task=st.integers(1, 4))
def test_every_task_has_the_same_values_in_another_order(digits, seed, padding, task):
    stream = permuted(digits, 5, padding, seed)
    plain, _ = stream.tasks[0].test.batch(EVERY)
    moved, _ = stream.tasks[task].test.batch(EVERY)
    order = permutation(plain.shape[1], seed, task)
    assert torch.equal(order.sort().values, torch.arange((8 + 2 * padding) ** 2))
    assert torch.equal(moved, plain[:, order])
    assert not torch.equal(moved, plain)


def test_padding_frames_the_images_in_black(digits):
    stream = permuted(digits, 1, padding=2)
    images = stream.tasks[0].train.inputs.reshape(-1, 12, 12)
    assert stream.input_shape == (144,)
    assert torch.equal(images[:, 2:-2, 2:-2], digits.train_images)
    assert images.sum() == digits.train_images.sum()


def test_training_and_test_set_of_a_task_are_permuted_alike(digits):
    for task in permuted(digits, 4).tasks:
        assert task.train.transform is task.test.transform


def test_tasks_share_one_tensor_of_inputs_on_every_device(digits):
    stream = permuted(digits, 4)
    for moved in (stream, stream.to("cpu")):
        assert len({id(task.train.inputs) for task in moved.tasks}) == 1
        assert len({id(task.test.targets) for task in moved.tasks}) == 1


def test_what_is_shared_is_moved_once(digits, monkeypatch):
    stream = permuted(digits, 10)
    moves = []
    plain_to = torch.Tensor.to
    monkeypatch.setattr(torch.Tensor, "to", lambda self, *args: moves.append(self.shape) or plain_to(self, *args))
    stream.to("cpu")
    assert moves.count(digits.train_labels.shape) == 1


def test_a_task_s_permutation_depends_neither_on_the_number_of_tasks_nor_on_the_run_s_seed():
    few = PermutedDigits(n_tasks=3).build(None, seed=1)
    many = PermutedDigits(n_tasks=6).build(None, seed=2)
    for one, other in zip(few.tasks, many.tasks, strict=False):
        assert torch.equal(one.train.batch(EVERY)[0], other.train.batch(EVERY)[0])


def test_tasks_and_permutation_seeds_differ():
    orders = [tuple(permutation(64, seed, task).tolist()) for seed in range(3) for task in range(1, 4)]
    assert len(set(orders)) == 9


def test_a_permutation_is_the_same_today_and_tomorrow():
    assert permutation(10, 0, 1).tolist() == [8, 9, 7, 3, 6, 4, 2, 5, 1, 0]


def test_a_permutation_follows_inputs_to_another_device():
    permute = Permute(torch.tensor([2, 0, 1]))
    inputs = torch.empty(5, 3, device="meta")
    assert permute(inputs).device.type == "meta"
    assert permute.to("meta").index.device.type == "meta"


def test_moved_examples_take_their_permutation_along(digits):
    examples = permuted(digits, 2).tasks[1].train.to("meta")
    assert isinstance(examples.transform, Permute)
    assert examples.transform.index.device.type == "meta"
    assert examples.batch(slice(0, 7))[0].shape == (7, 144)


def test_examples_without_a_permutation_can_be_moved_too(digits):
    assert permuted(digits, 1).tasks[0].train.to("meta").transform is None


def test_a_permutation_works_on_bytes_and_batches_of_any_shape():
    permute = Permute(torch.tensor([2, 0, 1]))
    assert permute(torch.tensor([1, 2, 3], dtype=torch.uint8)).tolist() == [3, 1, 2]
    assert permute(torch.zeros(2, 4, 3)).shape == (2, 4, 3)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"n_tasks": 0}, "n_tasks is 0; it must be at least 1."),
        ({"padding": -1}, "padding is -1; it must be at least 0."),
        ({"permutation_seed": -3}, "permutation_seed is -3; it must be at least 0."),
    ],
)
def test_settings_that_make_no_stream_are_refused(digits, settings, message):
    for config in (PermutedDigits, PermutedMnist):
        with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
            config(**settings)
    with pytest.raises(UsageError, match=f"^{re.escape(message)}$"):
        permuted(digits, **{"n_tasks": 2, **settings})


def test_padding_is_the_paper_s_for_mnist_and_none_for_digits():
    assert (PermutedMnist().padding, PermutedDigits().padding) == (2, 0)


def test_permuted_mnist_has_1024_pixels_and_any_number_of_tasks(mnist):
    stream = permuted(mnist, n_tasks=250)
    assert (len(stream), stream.input_shape, stream.outputs_per_task) == (250, (1024,), 10)
    assert (stream.name, stream.kind) == ("permuted-mnist", TaskKind.CLASSIFICATION)
    assert stream.tasks[0].train.inputs.dtype == torch.uint8
    assert len({task.train.inputs.data_ptr() for task in stream.tasks}) == 1
    inputs, _ = stream.tasks[249].test.batch(torch.arange(20))
    assert inputs.shape == (20, 1024)
    assert (float(inputs.min()), float(inputs.max())) == (0, 1)
