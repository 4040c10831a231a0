"""A generator of images whose weights a hypernetwork generates and protects: a decoder with a condition per task."""

from __future__ import annotations

from enum import Enum

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.models.mlp import MLP
from mnemon.optimizer import OptimizerConfig
from mnemon.part import Part
from mnemon.regularizers.protected import Protected, Protection


class Condition(str, Enum):
    """What a decoder is told of the task, beside the weights that are its own."""

    NOISE = "noise"
    """A fixed vector of `condition_size` numbers, drawn once per task from N(0, 1): the paper's text."""
    ONE_HOT = "one-hot"
    """The task's number as a one-hot vector: the published code."""
    NONE = "none"
    """Nothing."""


class ProtectedGenerator(Part):
    """Maps [noise ; condition] to outputs, by a network of its own for each task."""

    conditions: Tensor

    def __init__(
        self,
        latent: int,
        condition: Condition,
        condition_size: int,
        hidden: tuple[int, ...],
        n_outputs: int,
        n_tasks: int,
        protection: Protection,
        optimizer: OptimizerConfig,
    ):
        super().__init__()
        # All conditions exist from the start, so that they are the same whatever is learned in between.
        self.register_buffer("conditions", _conditions(condition, condition_size, n_tasks))
        module = MLP((latent + self.conditions.shape[1],), hidden, n_outputs, nn.ReLU)
        self.memory = Protected(module, protection, optimizer, capacity=n_tasks, keeps_snapshot=True)
        self._frozen: dict[int, Tensor] = {}

    @property
    def n_ready(self) -> int:
        """Tasks that were learned and can be drawn."""
        busy = bool(self.memory.optimizers)
        return min(self.n_begun - busy, len(self.memory.embeddings) - busy)

    def present(self, noise: Tensor) -> Tensor:
        """Return the outputs [n, outputs] of the task that is being learned, with gradients."""
        return self._run(self.n_begun - 1, noise, training=True, weights=None)

    @torch.no_grad()
    def frozen(self, task_id: int, noise: Tensor) -> Tensor:
        """Return the outputs of an earlier task, as they were when the present one began."""
        if task_id not in self._frozen:
            self._frozen[task_id] = self.memory.frozen_weights(task_id)
        return self._run(task_id, noise, training=False, weights=self._frozen[task_id])

    def _run(self, task_id: int, noise: Tensor, training: bool, weights: Tensor | None) -> Tensor:
        condition = self.conditions[task_id].expand(len(noise), -1)
        inputs = torch.cat([noise, condition], dim=1)
        return self.memory.run(task_id, inputs, training=training, weights=weights)

    def derive(self) -> None:
        self._frozen = {}

    def finish_learning(self, examples: Examples) -> None:
        self._frozen = {}

    @property
    def numel_per_task(self) -> int:
        """Numbers that each further task adds: its embedding and its condition."""
        return self.memory.numel_per_task + self.conditions.shape[1]


def _conditions(condition: Condition, size: int, n_tasks: int) -> Tensor:
    if condition is Condition.NOISE:
        return torch.randn(n_tasks, size)
    return torch.eye(n_tasks) if condition is Condition.ONE_HOT else torch.empty(n_tasks, 0)
