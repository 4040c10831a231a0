"""Augmentation: the same as image by image, a function of the random numbers alone, and only in what is learned."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from mnemon.benchmarks.augment import FlipAndCrop, Standardise
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream, hold_out
from mnemon.training.batches import Batches


def one_by_one(images: Tensor, flip: Tensor, top: Tensor, left: Tensor, padding: int) -> Tensor:
    """The slow twin: frame, cut, and mirror image by image."""
    found = []
    channels, height, width = images.shape[1:]
    for image, mirrored, row, column in zip(images, flip.tolist(), top.tolist(), left.tolist(), strict=True):
        framed = image.new_zeros(channels, height + 2 * padding, width + 2 * padding)
        framed[:, padding : padding + height, padding : padding + width] = image
        part = framed[:, row : row + height, column : column + width]
        found.append(part.flip(2) if mirrored else part)
    return torch.stack(found)


@given(
    n=st.integers(1, 9), shape=st.tuples(*[st.integers(1, 7)] * 3), padding=st.integers(0, 4), seed=st.integers(0, 99)
)
def test_a_batch_is_changed_as_image_by_image(n, shape, padding, seed):
    images = torch.randint(256, (n, *shape), dtype=torch.uint8)
    augment = FlipAndCrop(padding)
    drawn = augment.draw(n, torch.Generator().manual_seed(seed))
    wanted = one_by_one(images, *drawn, padding)
    assert torch.equal(augment(images, torch.Generator().manual_seed(seed)), wanted)


def test_every_place_and_both_sides_are_drawn_evenly():
    flip, top, left = FlipAndCrop().draw(90_000, torch.Generator().manual_seed(1))
    assert 0.49 < flip.double().mean() < 0.51
    for places in (top, left):
        assert (places.bincount() / 10_000 - 1).abs().max() < 0.05
        assert len(places.bincount()) == 9


def stream() -> TaskStream:
    images, labels = torch.randint(256, (40, 3, 8, 8), dtype=torch.uint8), torch.arange(40) % 2
    transform = Standardise(torch.tensor([0.5, 0.4, 0.3]), torch.tensor([0.2, 0.3, 0.4]))
    tasks = tuple(
        Task(str(i), Examples(images, labels, transform, FlipAndCrop()), Examples(images, labels, transform))
        for i in range(3)
    )
    return TaskStream("pictures", TaskKind.CLASSIFICATION, tasks, (3, 8, 8), 2)


def test_a_batch_to_learn_from_is_a_function_of_seed_task_and_step():
    tasks = stream().tasks

    def taken(seed: int, task: int, step: int) -> Tensor:
        return Batches(tasks, task, 40, seed, with_past=True, steps=10)[step].inputs

    same = taken(0, 1, 2)
    torch.manual_seed(77)
    assert torch.equal(taken(0, 1, 2), same)
    for other in (taken(1, 1, 2), taken(0, 2, 2), taken(0, 1, 3)):
        assert not torch.equal(other.sort(0).values, same.sort(0).values)


def test_the_past_is_augmented_too_and_otherwise_than_the_present():
    batch = Batches(stream().tasks, 2, 40, 0, with_past=True, steps=10)[0]
    values = [part.inputs.flatten().sort().values for part in (batch, *batch.past)]
    assert len(batch.past) == 2
    assert not torch.equal(values[1], values[2])


def test_tests_and_held_out_examples_are_as_they_are():
    first = stream().tasks[0]
    held = hold_out(stream(), 0.5, seed=0).tasks[0]
    assert held.test.augment is not None  # and yet nobody hands it random numbers
    for examples in (first.test, first.train, held.test):
        inputs, _ = examples.batch(slice(None))
        plain = examples.inputs.float() / 255
        mean, std = (torch.tensor(v)[:, None, None] for v in ([0.5, 0.4, 0.3], [0.2, 0.3, 0.4]))
        torch.testing.assert_close(inputs, (plain - mean) / std)
    assert first.train.inputs.dtype == torch.uint8


def test_standardised_colours_have_mean_0_and_deviation_1():
    images = torch.rand(50, 3, 8, 8) * torch.tensor([1.0, 0.5, 2.0])[:, None, None]
    found = Standardise(images.mean((0, 2, 3)), images.std((0, 2, 3)))(images)
    assert found.mean((0, 2, 3)).tolist() == pytest.approx([0] * 3, abs=1e-5)
    assert found.std((0, 2, 3)).tolist() == pytest.approx([1] * 3, abs=1e-4)
