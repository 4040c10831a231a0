"""What learners have in common that serve all tasks with one plain network."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from mnemon.inference.answer import answer_by_network, in_pieces
from mnemon.learners.base import AbstractLearner, Answer
from mnemon.problem import Batch, Problem


class AbstractOneNetworkLearner(AbstractLearner):
    """One network with the outputs of all tasks, which are there from the start."""

    answers_unseen = True

    def __init__(self, problem: Problem, network: nn.Module):
        super().__init__(problem)
        self.network = network

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
