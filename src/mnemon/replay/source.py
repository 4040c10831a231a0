"""Where inputs of earlier tasks come from once their data are gone."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar, NamedTuple

import torch
from torch import Tensor

from mnemon.errors import UsageError
from mnemon.lifecycle import TaskModule
from mnemon.problem import Batch, Terms
from mnemon.replay.config import ReplayConfig


class Replayed(NamedTuple):
    """Inputs of earlier tasks, drawn again.

    Example:
        >>> replayed = mnemon.Replayed(torch.zeros(2, 9), tasks=torch.tensor([0, 1]))
        >>> replayed.like(torch.zeros(5, 1, 3, 3)).shape
        torch.Size([2, 1, 3, 3])
    """

    inputs: Tensor
    tasks: Tensor | None
    """The task that each was drawn for; None if the source cannot tell."""

    def like(self, inputs: Tensor) -> Tensor:
        """Return the inputs in the shape of real inputs.

        Args:
            inputs: Some real inputs.
        """
        return self.inputs.view(-1, *inputs.shape[1:])


class AbstractReplay(TaskModule, ABC):
    """Draws inputs of tasks that were learned.

    While a task is learned, samples come from the model as it was before that task. It is made from its settings and
    the problem.

    Example:
        >>> class Zeros(mnemon.AbstractReplay):
        ...     n_ready = property(lambda self: self.n_begun)
        ...     def train_step(self, batch):
        ...         return {}
        ...     def draw(self, n, tasks):
        ...         return mnemon.Replayed(torch.zeros(n, 4), None)
        >>> replay = Zeros()
        >>> replay.n_begun = 2
        >>> replay.sample(3, tasks=[0, 1]).inputs.shape
        torch.Size([3, 4])
    """

    Config: ClassVar[type[ReplayConfig]]
    sees_past: ClassVar[bool] = False
    """Whether it hands on the real data of earlier tasks, which then come with each batch."""
    by_task: ClassVar[bool] = True
    """Whether it can be asked for a single task, and says which task a sample is of."""

    @abstractmethod
    def train_step(self, batch: Batch) -> Terms:
        """Learn to draw inputs of the present task.

        Args:
            batch: A batch of the task.

        Returns:
            The loss terms that were descended.
        """

    @property
    @abstractmethod
    def n_ready(self) -> int:
        """Tasks of which samples can be drawn."""

    @abstractmethod
    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        """Draw inputs, evenly from some tasks. Called by `sample`, which checks the arguments.

        Args:
            n: How many inputs.
            tasks: The numbers of the tasks.
        """

    def sample(self, n: int, tasks: Sequence[int]) -> Replayed:
        """Draw inputs, evenly from some tasks.

        Args:
            n: How many inputs.
            tasks: The numbers of tasks that were learned.

        Returns:
            The inputs, and their tasks if the source knows them.

        Raises:
            UsageError: There is nothing to draw, or a task was not learned yet.
        """
        if n < 1:
            raise UsageError(f"n must be at least 1, not {n}.")
        if not self.n_ready:
            raise UsageError("There is nothing to replay yet: no task was learned.")
        if not tasks:
            raise UsageError("Name at least one task to replay.")
        if unknown := [task for task in tasks if not 0 <= task < self.n_ready]:
            raise UsageError(f"Task {unknown[0] + 1} cannot be replayed: tasks learned so far: {self.n_ready}.")
        if n % len(tasks):  # somebody gets more than others: not always the same
            tasks = [tasks[i] for i in torch.randperm(len(tasks)).tolist()]
        return self.draw(n, tasks)

    def count(self) -> int:
        """Return the number of parameters that all tasks share."""
        return sum(p.numel() for p in self.parameters())

    @property
    def numel_per_task(self) -> int:
        """Numbers that each further task adds."""
        return 0

    @property
    def n_kept(self) -> int:
        """Tasks of which something is kept: usually all but the last, which nobody replays."""
        return 0


class AbstractDrawing(AbstractReplay):
    """Draws images from noise, so that one can look at them."""

    def __init__(self, latent: int):
        super().__init__()
        self.latent = latent

    @abstractmethod
    def decode(self, task_id: int, noise: Tensor) -> Tensor:
        """Return images [n, pixels] in [0, 1] of a task, or of all so far together, for noise [n, latent]."""


def spread(n: int, tasks: Sequence[int]) -> list[tuple[int, int]]:
    """Return how many of n samples each task gets: as evenly as can be, the first ones the rest."""
    share, rest = divmod(n, len(tasks))
    return [(task, share + (i < rest)) for i, task in enumerate(tasks) if share + (i < rest)]
