"""What all ways to infer a task have in common: a score for every task, and a vote."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from torch import Tensor

from mnemon.lifecycle import TaskModule
from mnemon.problem import Batch, Terms

Ask = Callable[[int], Tensor]
"""The logits of a task's own network for the inputs in question."""


class AbstractInference(TaskModule, ABC):
    """Infers which task an input belongs to: a score for every input and task.

    Example:
        >>> class FirstTask(mnemon.AbstractInference):
        ...     def scores(self, inputs, ask):
        ...         return torch.eye(1, self.n_begun).expand(len(inputs), -1)
        >>> inference = FirstTask()
        >>> inference.n_begun = 3
        >>> inference.scores(torch.rand(2, 4), ask=None)
        tensor([[1., 0., 0.],
                [1., 0., 0.]])
    """

    def train_step(self, batch: Batch) -> Terms:
        """Learn from a batch of the present task. By default nothing is learned.

        Args:
            batch: The batch.

        Returns:
            The loss terms that were descended.
        """
        return {}

    @abstractmethod
    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        """Return a score for every input and every task that was begun; the highest score is the inferred task.

        Args:
            inputs: The inputs.
            ask: Returns the logits of a task's own network for these inputs, given the number of the task.

        Returns:
            The scores [inputs, tasks].
        """

    def count(self) -> int:
        """Return the number of parameters that all tasks share."""
        return 0

    @property
    def numel_per_task(self) -> int:
        """Numbers that each further task adds."""
        return 0

    @property
    def nbytes_shared(self) -> int:
        """Bytes of what all tasks share."""
        return 4 * self.count()

    @property
    def nbytes_per_task(self) -> int:
        """Bytes that each further task adds."""
        return 4 * self.numel_per_task


def vote(scores: Tensor, group: int) -> Tensor:
    """Return the scores [n, tasks] averaged over each `group` of inputs in a row, known to be of one task."""
    if group == 1:
        return scores
    parts = scores.split(group)
    return torch.cat([part.mean(0, keepdim=True).expand_as(part) for part in parts])
