"""Tasks as frozen records: examples to learn from and to be tested on, and what a network must answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from enum import Enum

import torch
from torch import Tensor

from mnemon.errors import UsageError
from mnemon.seeding import generator


class TaskKind(str, Enum):
    """What the answer to an input is.

    Example:
        >>> mnemon.TaskKind("regression").name
        'REGRESSION'
    """

    CLASSIFICATION = "classification"
    """A class; measured by accuracy in percent, the higher the better."""
    REGRESSION = "regression"
    """Numbers; measured by the mean squared error, the lower the better."""


@dataclass(frozen=True)
class Examples:
    """Inputs and targets as whole tensors.

    `inputs` may be bytes (0 to 255); a batch has them as floats from 0 to 1. Tasks that differ only in their
    `transform` (such as a permutation of pixels) share one tensor of inputs. `augment` changes inputs at random, as
    they are stored, in batches to learn from.

    Example:
        >>> examples = mnemon.Examples(torch.rand(10, 4), torch.arange(10) % 2)
        >>> len(examples)
        10
    """

    inputs: Tensor
    targets: Tensor
    transform: Callable[[Tensor], Tensor] | None = None
    augment: Callable[[Tensor, torch.Generator], Tensor] | None = None

    def __post_init__(self) -> None:
        if len(self.inputs) != len(self.targets):
            raise UsageError(f"There are {len(self.inputs)} inputs but {len(self.targets)} targets.")
        if len(self.inputs) == 0:
            raise UsageError("A set of examples is empty.")

    def __len__(self) -> int:
        return len(self.inputs)

    @property
    def device(self) -> torch.device:
        """Where the examples lie."""
        return self.inputs.device

    def batch(self, index: Tensor | slice, random: torch.Generator | None = None) -> tuple[Tensor, Tensor]:
        """Return some of the examples, ready for a network.

        Args:
            index: The indices of the examples.
            random: Random numbers for augmentation. Default: no augmentation.

        Returns:
            Inputs and targets.

        Example:
            >>> inputs, targets = examples.batch(slice(0, 3))
            >>> targets
            tensor([0, 1, 0])
        """
        inputs = self.inputs[index]
        if self.augment is not None and random is not None:
            inputs = self.augment(inputs, random)
        if inputs.dtype == torch.uint8:
            inputs = inputs.to(torch.get_default_dtype()).div_(255)
        if self.transform is not None:
            inputs = self.transform(inputs)
        return inputs, self.targets[index]

    def to(self, device: torch.device | str) -> Examples:
        """Return the same examples on another device.

        Args:
            device: The device.
        """
        inputs, targets = self.inputs.to(device), self.targets.to(device)
        return replace(self, inputs=inputs, targets=targets, transform=move_transform(self.transform, device))


def move_transform(
    transform: Callable[[Tensor], Tensor] | None, device: torch.device | str
) -> Callable[[Tensor], Tensor] | None:
    """Return the same transform on another device, where it holds anything that can be moved."""
    return transform.to(device) if transform is not None and hasattr(transform, "to") else transform


@dataclass(frozen=True)
class Task:
    """One task. Its targets are its own: class 0 is the first class *of this task*.

    Example:
        >>> examples = mnemon.Examples(torch.rand(10, 4), torch.arange(10) % 2)
        >>> mnemon.Task("odd or even", train=examples, test=examples).name
        'odd or even'
    """

    name: str
    train: Examples
    test: Examples


@dataclass(frozen=True)
class TaskStream:
    """The tasks of a benchmark, in the order in which they are learned.

    Example:
        >>> examples = mnemon.Examples(torch.rand(10, 4), torch.arange(10) % 2)
        >>> tasks = tuple(mnemon.Task(name, examples, examples) for name in ("one", "two"))
        >>> stream = mnemon.TaskStream("twice", mnemon.TaskKind.CLASSIFICATION, tasks, (4,), outputs_per_task=2)
        >>> len(stream), stream.metric
        (2, 'accuracy')
    """

    name: str
    kind: TaskKind
    tasks: tuple[Task, ...]
    input_shape: tuple[int, ...]
    outputs_per_task: int
    """Classes of a task, or numbers to predict."""

    def __post_init__(self) -> None:
        for task in self.tasks:
            check_examples(task.train, self, f"task '{task.name}', training set")
            check_examples(task.test, self, f"task '{task.name}', test set")

    def __len__(self) -> int:
        return len(self.tasks)

    @property
    def metric(self) -> str:
        """What is measured on a task: accuracy (percent) or mse."""
        return "accuracy" if self.kind is TaskKind.CLASSIFICATION else "mse"

    def to(self, device: torch.device | str) -> TaskStream:
        """Return the same tasks on another device; tensors that tasks share stay shared.

        Args:
            device: The device.
        """
        moved: dict[int, Tensor] = {}

        def move(tensor: Tensor) -> Tensor:
            # Not setdefault, which would copy what is shared once per task and throw the copies away.
            if id(tensor) not in moved:
                moved[id(tensor)] = tensor.to(device)
            return moved[id(tensor)]

        def move_examples(e: Examples) -> Examples:
            transform = move_transform(e.transform, device)
            return replace(e, inputs=move(e.inputs), targets=move(e.targets), transform=transform)

        tasks = (replace(t, train=move_examples(t.train), test=move_examples(t.test)) for t in self.tasks)
        return replace(self, tasks=tuple(tasks))


def hold_out(stream: TaskStream, share: float, seed: int) -> TaskStream:
    """Return a stream whose tests are a share of the training data, which is no longer trained on.

    Settings are chosen on such a stream, so that the test data stay unseen. Which examples it is follows from the
    seed; tasks of the same inputs hold out the same ones and go on sharing them.
    """
    cut: dict[tuple[int, int], tuple[Tensor, Tensor]] = {}

    def halves(tensor: Tensor, index: Tensor, n: int) -> tuple[Tensor, Tensor]:
        if (id(tensor), n) not in cut:
            cut[id(tensor), n] = tensor[index[n:]], tensor[index[:n]]
        return cut[id(tensor), n]

    tasks = []
    for task in stream.tasks:
        n = round(share * len(task.train))
        if not 0 < n < len(task.train):
            raise UsageError(
                f"A share of {share} holds out {n} of the {len(task.train)} training examples of task '{task.name}'."
            )
        index = torch.randperm(len(task.train), generator=generator(seed, "held-out")).to(task.train.inputs.device)
        inputs, targets = (halves(tensor, index, n) for tensor in (task.train.inputs, task.train.targets))
        train, test = (replace(task.train, inputs=inputs[i], targets=targets[i]) for i in (0, 1))
        tasks.append(replace(task, train=train, test=test))
    return replace(stream, tasks=tuple(tasks))


def check_examples(examples: Examples, stream: TaskStream, where: str) -> None:
    """Refuse inputs of another shape than the stream's, and labels out of range or of another type than int64."""
    shape = tuple(examples.inputs.shape[1:])
    if shape != stream.input_shape:
        raise UsageError(f"Inputs of {where} have shape {shape}; {stream.input_shape} is expected.")
    if stream.kind is TaskKind.CLASSIFICATION:
        if examples.targets.dtype is not torch.int64:
            kind = str(examples.targets.dtype).removeprefix("torch.")
            raise UsageError(f"Labels of {where} must be int64, not {kind}: convert them with .long().")
        low, high = int(examples.targets.min()), int(examples.targets.max())
        if low < 0 or high >= stream.outputs_per_task:
            raise UsageError(
                f"Labels of {where} run from {low} to {high}; "
                f"with {stream.outputs_per_task} classes they must lie in 0 to {stream.outputs_per_task - 1}."
            )


def names(tasks: Sequence[Task]) -> list[str]:
    """Return the tasks' names in order."""
    return [task.name for task in tasks]
