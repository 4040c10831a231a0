"""What learners have in common that serve all tasks with one plain network."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemon.inference.answer import answer_by_network, in_pieces
from mnemon.learners.base import AbstractLearner, Answer
from mnemon.problem import Batch, Problem


@dataclass(frozen=True, kw_only=True)
class OneNetworkConfig:
    """Settings that all learners with one network for all tasks have."""

    keep_optimizer: bool = False
    """Whether one optimizer of the network goes on from task to task; otherwise each task starts with a new one."""


class AbstractOneNetworkLearner(AbstractLearner):
    """One network with the outputs of all tasks, which are there from the start."""

    answers_unseen = True
    config: OneNetworkConfig

    def __init__(self, problem: Problem, network: nn.Module):
        super().__init__(problem)
        self.network = network

    def start_learning(self) -> None:
        self.optimizers = {"target": self._optimizer()}

    def lasting_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        goes_on = self.config.keep_optimizer and self.n_begun < self.problem.n_tasks
        return {"target": self._optimizer()} if goes_on else {}

    def _optimizer(self) -> torch.optim.Optimizer:
        """Return the network's optimizer: a new one, unless it has one that goes on."""
        kept = self.optimizers.get("target") if self.config.keep_optimizer else None
        return self.problem.optimizer.build(self.network.parameters()) if kept is None else kept

    @torch.no_grad()
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        self.network.eval()
        return self.problem.own_outputs(in_pieces(self.network, inputs), task_id)

    @torch.no_grad()
    def answer(self, inputs: Tensor) -> Answer:
        self.network.eval()
        logits = in_pieces(self.network, inputs)
        return Answer(*answer_by_network(logits, self.problem.outputs, self.n_begun))

    def task_loss(self, outputs: Tensor, batch: Batch) -> Tensor:
        """Return the loss of a batch, given all outputs for it."""
        return batch.weight * self.problem.loss_among_all(outputs, batch.targets, batch.task_id, self.n_begun)

    def size(self) -> int:
        """Return the number of the network's weights."""
        return sum(p.numel() for p in self.network.parameters())
