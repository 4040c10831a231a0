"""CIFAR in tasks of ten classes: all of CIFAR-10, then splits of CIFAR-100; or CIFAR-100 alone."""

from __future__ import annotations

from dataclasses import dataclass, replace
from enum import Enum
from pathlib import Path

import torch
from torch import Tensor

from mnemon.benchmarks.augment import FlipAndCrop, Standardise
from mnemon.benchmarks.sources import ImageSet, load
from mnemon.benchmarks.split import class_examples
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.errors import UsageError

CLASSES = 10
MEAN, STD = (0.4914, 0.4822, 0.4465), (0.2470, 0.2435, 0.2616)
"""Of the training images of CIFAR-10, by channel; later tasks are scaled by them, too."""


class Scaling(str, Enum):
    """What values the pixels have."""

    STANDARD = "standard"
    """Mean 0 and deviation 1 in each channel, over CIFAR-10."""
    UNIT = "unit"
    """From 0 to 1."""


def class_tasks(base: ImageSet, n_tasks: int, augment: bool, scaling: Scaling) -> list[Task]:
    """Return tasks of ten consecutive classes of a data set."""
    transform = Standardise(torch.tensor(MEAN), torch.tensor(STD)) if scaling is Scaling.STANDARD else None

    def examples(images: Tensor, labels: Tensor, start: int, learned: bool) -> Examples:
        everything = base.n_classes == CLASSES  # then no copy is needed
        classes = range(start, start + CLASSES)
        chosen = Examples(images, labels) if everything else class_examples(images, labels, classes)
        return replace(chosen, transform=transform, augment=FlipAndCrop() if augment and learned else None)

    return [
        Task(
            f"{base.name}: {start}-{start + CLASSES - 1}",
            examples(base.train_images, base.train_labels, start, learned=True),
            examples(base.test_images, base.test_labels, start, learned=False),
        )
        for start in range(0, n_tasks * CLASSES, CLASSES)
    ]


def stream_of(name: str, tasks: list[Task]) -> TaskStream:
    """Return tasks of ten classes of images as a stream."""
    return TaskStream(name, TaskKind.CLASSIFICATION, tuple(tasks), tuple(tasks[0].train.inputs.shape[1:]), CLASSES)


@dataclass(frozen=True)
class Cifar:
    """Settings that both benchmarks have in common."""

    augment: bool = True
    """Whether images to learn from are mirrored and moved at random, by up to 4 pixels."""
    scaling: Scaling = Scaling.STANDARD
    """Values of the pixels: standard (mean 0, deviation 1) or unit (0 to 1)."""


@dataclass(frozen=True)
class SplitCifar(Cifar):
    """CIFAR-10, then splits of CIFAR-100 of ten classes each; six tasks in the paper."""

    n_tasks: int = 6
    """Tasks in the stream, CIFAR-10 among them."""

    def __post_init__(self) -> None:
        check_tasks(self.n_tasks, 11)

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the stream, which is the same for every seed."""
        tasks = class_tasks(load("cifar-10", data), 1, self.augment, self.scaling)
        if self.n_tasks > 1:
            tasks += class_tasks(load("cifar-100", data), self.n_tasks - 1, self.augment, self.scaling)
        return stream_of("split-cifar", tasks)


@dataclass(frozen=True)
class SplitCifar100(Cifar):
    """CIFAR-100 in ten tasks of ten classes."""

    n_tasks: int = 10
    """Tasks in the stream."""

    def __post_init__(self) -> None:
        check_tasks(self.n_tasks, 10)

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the stream, which is the same for every seed."""
        tasks = class_tasks(load("cifar-100", data), self.n_tasks, self.augment, self.scaling)
        return stream_of("split-cifar-100", tasks)


def check_tasks(n_tasks: int, most: int) -> None:
    """Refuse more tasks than there are classes for."""
    if not 1 <= n_tasks <= most:
        raise UsageError(f"n_tasks is {n_tasks}; there are classes for 1 to {most} tasks.")
