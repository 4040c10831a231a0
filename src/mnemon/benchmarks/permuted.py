"""Permute the pixels of a data set: every task has the same classes under another order of the pixels."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from mnemon.benchmarks.sources import ImageSet, load
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.errors import UsageError
from mnemon.seeding import generator


@dataclass(frozen=True, eq=False)
class Permute:
    """Reorder vectors: place i of the result holds what stood at place `index[i]`."""

    index: Tensor

    def __call__(self, inputs: Tensor) -> Tensor:
        # Does nothing where the examples were moved with `.to`; else a copy per batch is slow but right.
        return inputs.index_select(-1, self.index.to(inputs.device))

    def to(self, device: torch.device | str) -> Permute:
        """Return the same reordering on another device."""
        return Permute(self.index.to(device))


def permuted(base: ImageSet, n_tasks: int, padding: int = 2, permutation_seed: int = 0) -> TaskStream:
    """Return tasks that share the images and differ in the order of the pixels; task 1 has them as they are.

    Black pixels added around the images are permuted like the rest. A task's permutation depends on
    `permutation_seed` and its place only, not on how many tasks there are.
    """
    check_permuted(n_tasks, padding, permutation_seed)
    train = Examples(pad_images(base.train_images, padding), base.train_labels)
    test = Examples(pad_images(base.test_images, padding), base.test_labels)
    n_pixels = train.inputs.shape[1]
    return TaskStream(
        name=f"permuted-{base.name}",
        kind=TaskKind.CLASSIFICATION,
        tasks=tuple(permuted_task(train, test, i, n_pixels, permutation_seed) for i in range(n_tasks)),
        input_shape=(n_pixels,),
        outputs_per_task=base.n_classes,
    )


def pad_images(images: Tensor, padding: int) -> Tensor:
    """Return the images with a black frame, as vectors."""
    return torch.nn.functional.pad(images, (padding,) * 4).flatten(1)


def permuted_task(train: Examples, test: Examples, i: int, n_pixels: int, permutation_seed: int) -> Task:
    """Return the task at place i, counted from 0."""
    transform = None if i == 0 else Permute(permutation(n_pixels, permutation_seed, i))
    return Task(
        name=f"permutation {i + 1}" if i else "unpermuted",
        train=Examples(train.inputs, train.targets, transform),
        test=Examples(test.inputs, test.targets, transform),
    )


def permutation(n_pixels: int, permutation_seed: int, i: int) -> Tensor:
    """Return the order of the pixels at place i."""
    return torch.randperm(n_pixels, generator=generator(permutation_seed, "permutation", i))


def check_permuted(n_tasks: int, padding: int, permutation_seed: int) -> None:
    """Refuse settings that make no stream."""
    if n_tasks < 1:
        raise UsageError(f"n_tasks is {n_tasks}; it must be at least 1.")
    if padding < 0:
        raise UsageError(f"padding is {padding}; it must be at least 0.")
    if permutation_seed < 0:
        raise UsageError(f"permutation_seed is {permutation_seed}; it must be at least 0.")


@dataclass(frozen=True)
class Permuted:
    """Settings that all permuted benchmarks have in common."""

    dataset: ClassVar[str]

    n_tasks: int = 10
    """Tasks in the stream, the unpermuted one among them."""
    padding: int = 2
    """Black pixels added on each side before permuting; 2 makes MNIST 32 x 32."""
    permutation_seed: int = 0
    """What the permutations are drawn from; not the run's seed, so that all seeds of a study share them."""

    def __post_init__(self) -> None:
        check_permuted(self.n_tasks, self.padding, self.permutation_seed)

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the stream, which is the same for every seed."""
        return permuted(load(self.dataset, data), self.n_tasks, self.padding, self.permutation_seed)


@dataclass(frozen=True)
class PermutedDigits(Permuted):
    """Scikit-learn's digits under permutations of their pixels; nothing to fetch."""

    dataset = "digits"

    padding: int = 0
    """Black pixels added on each side before permuting; without them there are 64 pixels."""


class PermutedMnist(Permuted):
    """MNIST under permutations of its pixels; 10, 100 or 250 tasks in the paper."""

    dataset = "mnist"
