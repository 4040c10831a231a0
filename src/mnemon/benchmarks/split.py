"""Split a data set by classes: task 1 is to tell the first classes apart, task 2 the next ones, and so on."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import ClassVar

from torch import Tensor

from mnemon.benchmarks.sources import DATASETS, ImageSet, load
from mnemon.benchmarks.task import Examples, Kind, Task, TaskStream
from mnemon.errors import UsageError


def split(base: ImageSet, classes_per_task: int = 2, n_tasks: int | None = None) -> TaskStream:
    """Return tasks of consecutive classes, images as vectors, labels from 0 within each task.

    Without `n_tasks` there are as many as the classes allow; classes that fill no task are left out.
    """
    check_split(base.n_classes, classes_per_task, n_tasks)
    n_tasks = n_tasks or base.n_classes // classes_per_task
    starts = (classes_per_task * i for i in range(n_tasks))
    return TaskStream(
        name=f"split-{base.name}",
        kind=Kind.CLASSIFICATION,
        tasks=tuple(class_task(base, range(start, start + classes_per_task)) for start in starts),
        input_shape=(base.train_images[0].numel(),),
        outputs_per_task=classes_per_task,
    )


def class_task(base: ImageSet, classes: range) -> Task:
    """Return the task to tell these classes apart."""
    return Task(
        name=",".join(map(str, classes)),
        train=as_vectors(class_examples(base.train_images, base.train_labels, classes)),
        test=as_vectors(class_examples(base.test_images, base.test_labels, classes)),
    )


def class_examples(images: Tensor, labels: Tensor, classes: range) -> Examples:
    """Return the images of these classes, labels from 0."""
    chosen = (labels >= classes.start) & (labels < classes.stop)
    return Examples(images[chosen], labels[chosen] - classes.start)


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

    def __post_init__(self) -> None:
        check_split(DATASETS[self.dataset].n_classes, self.classes_per_task, self.n_tasks)

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the stream, which is the same for every seed."""
        return split(load(self.dataset, data), self.classes_per_task, self.n_tasks)


class SplitDigits(Split):
    """Scikit-learn's digits in tasks of a few classes; nothing to fetch."""

    dataset = "digits"


class SplitMnist(Split):
    """MNIST in tasks of a few classes; five tasks of two in the paper."""

    dataset = "mnist"


class SplitFashion(Split):
    """Fashion-MNIST in tasks of a few classes."""

    dataset = "fashion-mnist"
