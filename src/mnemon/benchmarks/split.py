"""Split a data set by classes: task 1 is to tell some classes apart, task 2 some others, and so on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path
from typing import ClassVar

import torch
from torch import Tensor

from mnemon.benchmarks.sources import DATASETS, ImageSet, load
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.errors import UsageError
from mnemon.seeding import generator


class Pairs(str, Enum):
    """Which classes share a task."""

    NATURAL = "natural"
    """Those that follow each other: the digits 0 and 1, then 2 and 3; the same for every seed."""
    SHUFFLED = "shuffled"
    """Any, drawn anew for every seed. The published numbers of EWC, SI and DGR on split MNIST are of such pairs."""


def split(
    base: ImageSet, classes_per_task: int = 2, n_tasks: int | None = None, order: Sequence[int] | None = None
) -> TaskStream:
    """Return tasks of classes that follow each other in an order, images as vectors, labels from 0 within each task.

    Without `order` it is that of their numbers. Without `n_tasks` there are as many tasks as the classes allow;
    classes that fill no task are left out.
    """
    check_split(base.n_classes, classes_per_task, n_tasks)
    n_tasks = n_tasks or base.n_classes // classes_per_task
    order = range(base.n_classes) if order is None else order
    starts = (classes_per_task * i for i in range(n_tasks))
    return TaskStream(
        name=f"split-{base.name}",
        kind=TaskKind.CLASSIFICATION,
        tasks=tuple(class_task(base, order[start : start + classes_per_task]) for start in starts),
        input_shape=(base.train_images[0].numel(),),
        outputs_per_task=classes_per_task,
    )


def class_order(pairs: Pairs, n_classes: int, seed: int) -> list[int]:
    """Return the order in which classes are put into tasks.

    Shuffled ones are so for every seed. Van de Ven & Tolias (2019) leave seed 0 alone as it is, for pictures; their
    scripts count seeds from 1111.
    """
    if pairs is Pairs.NATURAL:
        return list(range(n_classes))
    return [int(i) for i in torch.randperm(n_classes, generator=generator(seed, "pairs"))]


def class_task(base: ImageSet, classes: Sequence[int]) -> Task:
    """Return the task to tell these classes apart."""
    return Task(
        name=",".join(map(str, classes)),
        train=as_vectors(class_examples(base.train_images, base.train_labels, classes)),
        test=as_vectors(class_examples(base.test_images, base.test_labels, classes)),
    )


def class_examples(images: Tensor, labels: Tensor, classes: Sequence[int]) -> Examples:
    """Return the images of these classes, labels from 0 in their order."""
    largest = int(labels.max()) if len(labels) else 0
    new = labels.new_full((1 + max(largest, *classes),), -1)
    new[list(classes)] = torch.arange(len(classes)).to(new)
    found = new[labels]
    return Examples(images[found >= 0], found[found >= 0])


def as_vectors(examples: Examples) -> Examples:
    """Return images as vectors."""
    return replace(examples, inputs=examples.inputs.flatten(1))


def check_split(n_classes: int, classes_per_task: int, n_tasks: int | None) -> None:
    """Refuse what these classes cannot give."""
    if not 1 <= classes_per_task <= n_classes:
        raise UsageError(f"classes_per_task is {classes_per_task}; a task can have 1 to {n_classes} classes here.")
    most = n_classes // classes_per_task
    if n_tasks is not None and not 1 <= n_tasks <= most:
        raise UsageError(
            f"n_tasks is {n_tasks}; {n_classes} classes give 1 to {most} tasks of {classes_per_task} classes."
        )


@dataclass(frozen=True)
class Split:
    """Settings that all split benchmarks have in common."""

    dataset: ClassVar[str]

    classes_per_task: int = 2
    """Classes that each task tells apart."""
    n_tasks: int | None = None
    """Tasks in the stream; without it, as many as the classes allow."""
    pairs: Pairs = Pairs.NATURAL
    """Classes that share a task: natural (those that follow each other) or shuffled (drawn for every seed)."""

    def __post_init__(self) -> None:
        check_split(DATASETS[self.dataset].n_classes, self.classes_per_task, self.n_tasks)

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the stream, which is the same for every seed if the pairs are natural."""
        base = load(self.dataset, data)
        return split(base, self.classes_per_task, self.n_tasks, class_order(self.pairs, base.n_classes, seed))


class SplitDigits(Split):
    """Scikit-learn's digits in tasks of a few classes; nothing to fetch."""

    dataset = "digits"


class SplitMnist(Split):
    """MNIST in tasks of a few classes; five tasks of two in the paper."""

    dataset = "mnist"


class SplitFashion(Split):
    """Fashion-MNIST in tasks of a few classes."""

    dataset = "fashion-mnist"
