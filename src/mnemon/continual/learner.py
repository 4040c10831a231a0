"""Learn one task after another with the user's module, for any number of tasks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from mnemon.continual.data import Inputs
from mnemon.continual.objective import Goal
from mnemon.errors import UsageError
from mnemon.inference.likelihood import LikelihoodInference
from mnemon.lifecycle import CheckpointedModule, task_modules_of
from mnemon.memory.base import AbstractMemory
from mnemon.problem import Batch, Terms

AT_ONCE = 1000
"""Inputs that are processed at once."""
CODES = "coded/memory."
"""Prefix of the names of codes in a file."""


@dataclass(frozen=True)
class Kept:
    """A copy of the persistent state, to restore."""

    n_tasks: int
    tensors: dict[str, Tensor]
    memory: Any


class ModuleLearner(CheckpointedModule):
    """A memory of networks with the module's architecture, each starting from the user's module."""

    def __init__(self, memory: AbstractMemory):
        super().__init__()
        self.memory = memory
        self.densities: LikelihoodInference | None = None
        """Densities of the (first) inputs of each task, if tasks are inferred by density."""

    @property
    def memories(self) -> list[AbstractMemory]:
        """The memory of networks and, if there is one, that of densities."""
        return [self.memory, *([self.densities.memory] if self.densities is not None else [])]

    @property
    def n_tasks(self) -> int:
        """Number of tasks in the memory."""
        return self.memory.n_tasks

    @property
    def device(self) -> torch.device:
        """The device on which it computes."""
        return self.memory.device

    @property
    def floats(self) -> torch.dtype:
        """The type of its own numbers, whatever the module's."""
        return self.memory.floats

    @torch.enable_grad()
    def train_step(self, inputs: Inputs, targets: Tensor, goal: Goal, progress: float = 0.0) -> Terms:
        """Learn from a batch of the newest task; `progress` is the share of its steps already taken."""
        newest = self.n_tasks - 1
        self.memory.advance(progress)
        seen = inputs[0].clone() if self.densities is not None else None  # some modules work in place
        loss = goal.loss(self.memory.run(newest, *inputs, training=True), targets)
        if not loss.requires_grad:
            raise UsageError("The module's outputs have no gradient: it may detach them, or compute without one.")
        terms = {"task_loss": loss.detach(), **self.memory.descend(loss)}
        if self.densities is not None and seen is not None:
            no_class = torch.zeros(len(seen), dtype=torch.long, device=self.device)
            terms |= self.densities.train_step(Batch(newest, seen.to(self.floats), no_class, progress=progress))
        return terms

    def likelihoods(self, inputs: Inputs) -> Tensor:
        """Return how likely inputs are under the density of each task, [n, tasks]."""
        assert self.densities is not None
        return self.densities.scores(inputs[0].to(self.floats), lambda task_id: inputs[0])

    @torch.no_grad()
    def start(self, inputs: Inputs, training: bool) -> Tensor:
        """Return the outputs of the user's module, from which every task starts."""
        target = self.memory.target.train(training)
        assert self.memory.own is not None
        inputs = tuple(part.clone() for part in inputs)
        # Not the target's own weights: after loading, the given module may have others.
        return target(self.memory.own, *inputs, buffers=target.fresh_buffers())

    @torch.no_grad()
    def outputs(self, inputs: Inputs, task_id: int) -> Tensor:
        """Return all outputs of a task's network."""
        weights = self.memory.cached_weights(task_id)
        # Clones: some modules work in place on what they are given.
        parts = zip(*((piece.clone() for piece in part.split(AT_ONCE)) for part in inputs), strict=True)
        found = [self.memory.run(task_id, *part, training=False, weights=weights) for part in parts]
        return torch.cat(found) if len(found) > 1 else found[0]

    def is_finite(self) -> bool:
        """Tell whether all parameters of the memory are finite."""
        return all(bool(torch.isfinite(p).all()) for memory in self.memories for p in memory.moving)

    def begin_again(self, task_id: int) -> None:
        """Prepare to learn more of a learned task, which becomes the newest."""
        self.select_tasks([t for t in range(self.n_tasks) if t != task_id] + [task_id])
        self.memory.begin_again()
        self._set_begun(self.n_begun, in_task=True)
        self._on_parts("start_learning")
        self._on_parts("rebuild")

    def select_tasks(self, order: Sequence[int]) -> None:
        """Keep these tasks, in this order, and drop the others."""
        for part in task_modules_of(self).values():
            part.n_begun = len(order)
            if part is not self:
                part.select_tasks(order)

    def give_up(self) -> None:
        """Stop learning the present task."""
        self._set_begun(self.n_begun, in_task=False)
        for part in task_modules_of(self).values():
            part.optimizers = {}
        for memory in self.memories:
            memory.stop_learning()

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state: parameters, buffers, codes and optimizers."""
        return {**super().tensors(), **{f"{CODES}{name}": code for name, code in self.memory.coded().items()}}

    def restore(self, tensors: dict[str, Tensor], n_begun: int, learning: bool) -> None:
        """Load the state of a learner that has begun this many tasks; it must fit exactly."""
        coded = {name: tensor for name, tensor in tensors.items() if name.startswith(CODES)}
        super().restore({name: tensors[name] for name in tensors.keys() - coded.keys()}, n_begun, learning)
        self.memory.take_coded({name.removeprefix(CODES): code for name, code in coded.items()}, n_begun)

    def kept(self) -> Kept:
        """Return a copy of the persistent state."""
        tensors = {name: tensor.clone() for name, tensor in self._lasting().items()}
        return Kept(self.n_tasks, tensors, self.memory.kept())

    @torch.no_grad()
    def put_back(self, kept: Kept) -> None:
        """Restore a copy that has as many tasks."""
        self.memory.put_back(kept.memory)
        for name, tensor in self._lasting().items():
            if name in kept.tensors:  # snapshots are there only while a task is learned
                tensor.copy_(kept.tensors[name])

    def undo(self, kept: Kept) -> None:
        """Give up the present task, and restore the copy, which was made between two tasks."""
        self.give_up()
        self.memory.put_back(kept.memory)
        self.select_tasks(range(kept.n_tasks))
        self.put_back(kept)
