"""What the hypernetwork is compared with: no protection at all, and learners that need no protection."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError
from mnemon.inference.answer import answer_by_task, in_pieces
from mnemon.inference.entropy import EntropyInference
from mnemon.learners.base import AbstractLearner, Answer, Counts
from mnemon.learners.one_network import AbstractOneNetworkLearner, OneNetworkConfig
from mnemon.optimizer import descend
from mnemon.problem import Batch, Problem, Terms


class FinetunedTarget(AbstractOneNetworkLearner):
    """One network with a head per task, trained on the present task alone: it forgets freely."""

    Config = OneNetworkConfig
    shares_batches = True

    def __init__(self, config: OneNetworkConfig, problem: Problem):
        super().__init__(problem, problem.network(problem.outputs.total))
        self.config = config

    def train_step(self, batch: Batch) -> Terms:
        self.network.train()
        loss = self._loss(batch)
        descend(self.optimizers["target"], loss)
        return {"task_loss": loss.detach()}

    def _loss(self, batch: Batch) -> Tensor:
        return self.task_loss(self.network(batch.inputs), batch)

    def counts(self) -> Counts:
        return Counts(self.size(), 0, self.size(), self.problem.n_tasks)


class Joint(FinetunedTarget):
    """The same network, trained on the real data of all tasks so far, each task with equal weight: an upper bound."""

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method."""

        fresh: bool = False
        """Whether each task begins with a new network, or goes on with the one that learned the tasks before."""

        def __post_init__(self) -> None:
            if self.fresh and self.keep_optimizer:
                raise UsageError("A new network needs a new optimizer: leave out method.keep_optimizer, or fresh.")

    config: Config

    def add_task(self) -> None:
        if self.config.fresh and self.n_begun:
            self.network = self.problem.network(self.problem.outputs.total).to(self._device_marker)

    @property
    def sees_past(self) -> bool:
        return True

    def _loss(self, batch: Batch) -> Tensor:
        parts = [batch, *batch.past]
        return torch.stack([super(Joint, self)._loss(part) for part in parts]).mean()


class AbstractFromScratch(AbstractLearner):
    """A fresh network for every task, all of them kept: nothing is shared and nothing forgotten."""

    shares_batches = True

    def __init__(self, problem: Problem):
        super().__init__(problem)
        self.networks = nn.ModuleList()
        self.inference = EntropyInference(problem)

    def add_task(self) -> None:
        self.networks.append(self.new_network().to(self._device_marker))

    @abstractmethod
    def new_network(self) -> nn.Module:
        """Return a fresh network for the next task, with its outputs alone."""

    def start_learning(self) -> None:
        self.optimizers = {"target": self.problem.optimizer.build(self.networks[-1].parameters())}

    def train_step(self, batch: Batch) -> Terms:
        network = self.networks[batch.task_id].train()
        loss = batch.weight * self.problem.loss(network(batch.inputs), batch.targets)
        descend(self.optimizers["target"], loss)
        return {"task_loss": loss.detach()}

    @torch.no_grad()
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        return in_pieces(self.networks[task_id].eval(), inputs)

    @torch.no_grad()
    def answer(self, inputs: Tensor) -> Answer:
        return Answer(*answer_by_task(self.inference, inputs, self.predict, self.problem.outputs))

    def count_kept(self, kept: Sequence[Tensor], size: int) -> Counts:
        """Return the counts, given what is kept of each task, and the weights of its network."""
        per_task, n_bytes = sum(t.numel() for t in kept), sum(t.nbytes for t in kept)
        return Counts(0, per_task, size, self.problem.n_tasks, bytes_per_task=n_bytes)


@dataclass(frozen=True)
class NoSettings:
    """No settings of its own."""


class FromScratch(AbstractFromScratch):
    """A fresh plain network for every task."""

    Config = NoSettings

    def __init__(self, config: NoSettings, problem: Problem):
        super().__init__(problem)
        self.config = config

    def new_network(self) -> nn.Module:
        return self.problem.network(self.problem.outputs_per_task)

    def counts(self) -> Counts:
        with torch.device("meta"):
            network = self.new_network()
        size = sum(p.numel() for p in network.parameters())
        return self.count_kept([*network.parameters(), *network.buffers()], size)
