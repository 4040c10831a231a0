"""Replay by a generator whose weights a hypernetwork generates and protects: a network and a condition per task."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError
from mnemon.lifecycle import TaskModule
from mnemon.memory.networks import NetworkMemory
from mnemon.models.mlp import MLP
from mnemon.problem import Problem
from mnemon.replay.config import Condition, GeneratorConfig
from mnemon.replay.source import AbstractDrawing, Replayed, spread


class ProtectedGenerator(TaskModule):
    """Maps [noise ; condition] to outputs, by a network of its own for each task."""

    conditions: Tensor

    def __init__(self, config: GeneratorConfig, problem: Problem):
        super().__init__()
        n_tasks = config.tasks_to_learn(problem.n_tasks)
        # All conditions exist from the start, so that they are the same whatever is learned in between.
        self.register_buffer("conditions", _conditions(config, n_tasks))
        module = MLP((config.latent + self.conditions.shape[1],), config.decoder, problem.n_inputs, nn.ReLU)
        self.memory = NetworkMemory(module, config, problem.optimizer, capacity=n_tasks, keeps_snapshot=True)

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
        return self._run(task_id, noise, training=False, weights=self.memory.frozen_weights(task_id))

    def _run(self, task_id: int, noise: Tensor, training: bool, weights: Tensor | None) -> Tensor:
        condition = self.conditions[task_id].expand(len(noise), -1)
        inputs = torch.cat([noise, condition], dim=1)
        return self.memory.run(task_id, inputs, training=training, weights=weights)


def _conditions(config: GeneratorConfig, n_tasks: int) -> Tensor:
    if config.condition is Condition.NOISE:
        return torch.randn(n_tasks, config.condition_size)
    if config.condition is Condition.NONE:
        return torch.empty(n_tasks, 0)
    width = n_tasks if config.condition is Condition.ONE_HOT else config.condition_size
    if width < n_tasks:
        raise UsageError(
            f"replay.condition_size must be at least {n_tasks} to tell so many tasks by one number each, not {width}."
        )
    return torch.eye(n_tasks, width)


class AbstractGenerator(AbstractDrawing):
    """A protected generator and a partner that it learns with, which all tasks share and which may forget."""

    def __init__(self, config: GeneratorConfig, problem: Problem, partner: nn.Module):
        super().__init__(config.latent)
        self._optimizer_config = problem.optimizer
        self.partner = partner
        self.generator = ProtectedGenerator(config, problem)

    @property
    def learning(self) -> bool:
        """Whether the present task is one to learn."""
        return self.generator.memory.learning

    @property
    def n_ready(self) -> int:
        return self.generator.n_ready

    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        like = self.generator.conditions
        parts, names = [], []
        for task, count in spread(n, tasks):
            noise = torch.randn(count, self.latent, device=like.device, dtype=like.dtype)
            parts.append(self.decode(task, noise))
            names.append(torch.full((count,), task, device=like.device))
        return Replayed(torch.cat(parts), torch.cat(names))

    def start_learning(self) -> None:
        if self.learning:
            self.optimizers = {"partner": self._optimizer_config.build(self.partner.parameters())}

    def mechanisms(self) -> dict[str, str]:
        # The first task has nothing before it to be kept.
        acts = self.n_kept > 1 and self.generator.memory.config.beta
        return {"replay_penalty": "the penalty on changes of what is replayed"} if acts else {}

    def count(self) -> int:
        return sum(p.numel() for p in self.partner.parameters()) + self.generator.memory.hypernet.count()

    @property
    def numel_per_task(self) -> int:
        """Numbers that each further task adds: its embedding and its condition."""
        return self.generator.memory.numel_per_task + self.generator.conditions.shape[1]

    @property
    def n_kept(self) -> int:
        return len(self.generator.conditions)
