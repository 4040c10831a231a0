"""Context-dependent gating: for each task a random part of the hidden units is silent (Masse et al., 2018)."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError
from mnemon.learners.gated import AbstractGatedLearner
from mnemon.learners.one_network import OneNetworkConfig
from mnemon.optimizer import descend
from mnemon.problem import Batch, Problem, Terms


class XdG(AbstractGatedLearner):
    """One network, trained on the present task alone, of which each task uses its own random units."""

    called = "XdG"

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method."""

        silent: float = 0.8
        """Share of the hidden units of every layer that are silent in a task."""

        def __post_init__(self) -> None:
            if not 0 <= self.silent < 1:
                raise UsageError(f"method.silent must be at least 0 and below 1, not {self.silent}.")

    config: Config

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config
        self.masks = nn.ParameterList()

    def gates(self, task_id: int) -> Tensor:
        return self.masks[task_id]

    def train_step(self, batch: Batch) -> Terms:
        gates = self.gates(batch.task_id)
        loss = self.task_loss(self.run(batch.inputs, batch.task_id, gates, training=True), batch)
        descend(self.optimizers["target"], loss)
        return {"task_loss": loss.detach(), "silent": 1 - gates.mean()}

    def add_task(self) -> None:
        super().add_task()
        drawn = [self._draw(width) for width in self.chain.widths]
        self.masks.append(nn.Parameter(torch.cat(drawn).to(self._device_marker), requires_grad=False))

    def mechanisms(self) -> dict[str, str]:
        return {"silent": "the gates on hidden units"} if self.config.silent else {}

    def _draw(self, width: int) -> Tensor:
        """Return the gates of a layer: at least one unit speaks."""
        mask = torch.ones(width)
        mask[torch.randperm(width)[: min(round(self.config.silent * width), width - 1)]] = 0
        return mask
