"""Who says which task an input belongs to, and which outputs of a network therefore compete for the answer."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

OutputRange = tuple[int, int]
"""First output and the one after the last."""


class Scenario(str, Enum):
    """Whether the task of an input is told, and what has to be answered.

    Example:
        >>> [scenario.value for scenario in mnemon.Scenario]
        ['cl1', 'cl2', 'cl3']
    """

    CL1 = "cl1"
    """The task is told; each task has a head of its own."""
    CL2 = "cl2"
    """The task is not told and need not be named: all tasks share one head."""
    CL3 = "cl3"
    """The task is not told; the answer is a class of any task, so a wrong task is a wrong answer."""


@dataclass(frozen=True)
class Outputs:
    """The outputs of a network that serves all tasks."""

    scenario: Scenario
    n_tasks: int
    per_task: int

    @property
    def total(self) -> int:
        """Outputs in all: one head in CL2, a head per task otherwise."""
        return self.per_task * (1 if self.scenario is Scenario.CL2 else self.n_tasks)

    def head(self, task_id: int) -> OutputRange:
        """Return a task's own outputs."""
        start = 0 if self.scenario is Scenario.CL2 else task_id * self.per_task
        return start, start + self.per_task

    def columns(self, tasks: Tensor) -> Tensor:
        """Return the outputs of a head for each of some tasks, a row each."""
        first = 0 if self.scenario is Scenario.CL2 else tasks[:, None] * self.per_task
        return torch.arange(self.per_task, device=tasks.device).expand(len(tasks), -1) + first

    def seen(self, n_seen: int) -> OutputRange:
        """Return the outputs of the first so many tasks: a softmax over them grows with the tasks."""
        return 0, self.head(n_seen - 1)[1] if n_seen else 0

    def competing(self, task_id: int, n_seen: int) -> OutputRange:
        """Return the outputs among which a network chooses that is told no more than the scenario tells."""
        return self.seen(n_seen) if self.scenario is Scenario.CL3 else self.head(task_id)

    def output_index(self, targets: Tensor, task_id: int) -> Tensor:
        """Return the classes of a task as indices among all outputs."""
        return targets + self.head(task_id)[0]

    def task_of(self, output_index: Tensor) -> Tensor | None:
        """Return the task whose head an output belongs to; None where all tasks share one head."""
        return None if self.scenario is Scenario.CL2 else output_index // self.per_task
