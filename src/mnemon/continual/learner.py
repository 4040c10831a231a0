"""Learn one task after another with a module of the user's, as many as come."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemon.continual.data import Inputs
from mnemon.continual.kinds import Goal
from mnemon.inference.likelihood import LikelihoodInference
from mnemon.optimizer import OptimizerConfig
from mnemon.part import Whole, parts_of
from mnemon.problem import Batch, Terms
from mnemon.regularizers.protected import Protected, Protection

AT_ONCE = 1000
"""Inputs that are answered at once."""


class ModuleLearner(Whole):
    """A memory of networks of the module's form, each starting from the module as it came."""

    def __init__(
        self, module: nn.Module, generate: Sequence[str], protection: Protection, optimizer: OptimizerConfig
    ):
        super().__init__()
        self.memory = Protected(module, protection, optimizer, generate, from_own=True)
        self.densities: LikelihoodInference | None = None
        """How the (first) inputs of each task look, if tasks are to be recognised by that."""

    @property
    def n_tasks(self) -> int:
        """Tasks that are remembered."""
        return len(self.memory.embeddings)

    @property
    def device(self) -> torch.device:
        """Where it computes."""
        return self.memory.hypernet.readout.device

    def train_step(self, inputs: Inputs, targets: Tensor, goal: Goal, progress: float = 0.0) -> Terms:
        """Learn from a batch of the newest task, of whose steps such a share was taken."""
        newest = self.n_tasks - 1
        loss = goal.loss(self.memory.run(newest, *inputs, training=True), targets)
        terms = {"task_loss": loss.detach(), **self.memory.descend(loss)}
        if self.densities is not None:
            no_class = torch.zeros(len(inputs[0]), dtype=torch.long, device=self.device)
            terms |= self.densities.train_step(Batch(newest, inputs[0], no_class, progress=progress))
        return terms

    @torch.no_grad()
    def outputs(self, inputs: Inputs, task_id: int) -> Tensor:
        """Return all outputs of a task's network."""
        weights = self.memory.remembered(task_id)
        parts = zip(*(part.split(AT_ONCE) for part in inputs), strict=True)
        found = [self.memory.run(task_id, *part, training=False, weights=weights) for part in parts]
        return torch.cat(found) if len(found) > 1 else found[0]

    def begin_again(self, task_id: int) -> None:
        """Get ready to go on with a task that was learned: it becomes the newest."""
        self.arrange([t for t in range(self.n_tasks) if t != task_id] + [task_id])
        self._on_parts("start_learning")
        self._on_parts("derive")

    def arrange(self, order: Sequence[int]) -> None:
        """Keep these tasks, in this order, and drop the others."""
        for part in parts_of(self).values():
            part.n_begun = len(order)
            if part is not self:
                part.arrange(order)
