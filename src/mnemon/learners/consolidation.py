r"""What Online EWC and SI have in common: weights that matter to earlier tasks are held near where they were.

$$L = L_{task}(w) + k \sum_i \Omega_i (w_i - w_i^*)^2$$

with the weights $w^*$ as they were when the present task began. They differ in how they find the importances.
"""

from __future__ import annotations

from abc import abstractmethod

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from mnemon.benchmarks.task import Examples
from mnemon.learners.base import Counts
from mnemon.learners.one_network import AbstractOneNetworkLearner
from mnemon.problem import Batch, Problem, Terms


class AbstractConsolidation(AbstractOneNetworkLearner):
    """One network for all tasks, of which each weight is held as firmly as it was important."""

    shares_batches = True
    importance: Tensor
    anchor: Tensor

    def __init__(self, problem: Problem):
        super().__init__(problem, problem.network(problem.outputs.total))
        self.register_buffer("importance", torch.zeros(self.size()))
        self.register_buffer("anchor", torch.zeros(self.size()))

    @property
    @abstractmethod
    def stiffness(self) -> float:
        """What the weighted sum of squares is multiplied by."""

    @abstractmethod
    def importance_of(self, examples: Examples) -> Tensor:
        """Return how much each weight matters, now that the present task is learned and what mattered before."""

    def train_step(self, batch: Batch) -> Terms:
        self.network.train()
        loss = self.task_loss(self.network(batch.inputs), batch)
        self.optimizers["target"].zero_grad()
        loss.backward()
        return {"task_loss": loss.detach(), **self.descend()}

    def descend(self) -> Terms:
        """Take one step, given the gradients of the task loss; return the penalty, if there is one."""
        terms = {"penalty": self._add_penalty()} if self.n_begun > 1 else {}
        self.optimizers["target"].step()
        return terms

    @torch.no_grad()
    def _add_penalty(self) -> Tensor:
        drift = self.weights() - self.anchor
        pull = self.stiffness * self.importance * drift
        parameters = list(self.network.parameters())
        for parameter, part in zip(parameters, pull.split([p.numel() for p in parameters]), strict=True):
            part = 2 * part.view_as(parameter)
            parameter.grad = part if parameter.grad is None else parameter.grad.add_(part)
        return pull @ drift

    def weights(self) -> Tensor:
        """Return the network's weights as one flat vector, without gradients."""
        return parameters_to_vector(p.detach() for p in self.network.parameters())

    def start_learning(self) -> None:
        super().start_learning()
        self.anchor.copy_(self.weights())

    def finish_learning(self, examples: Examples) -> None:
        self.importance.copy_(self.importance_of(examples))

    def transient(self, name: str) -> bool:
        # Between two tasks the anchor is the network itself, and only the importances are kept beside it.
        return name in ("anchor", "path") and not self.in_task

    def mechanisms(self) -> dict[str, str]:
        return {"penalty": "the penalty on changes of important weights"} if self.stiffness else {}

    def counts(self) -> Counts:
        return Counts(2 * self.size(), 0, self.size(), self.problem.n_tasks)
