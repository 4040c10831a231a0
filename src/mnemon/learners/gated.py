"""What HAT and XdG have in common: one network, of which each task has hidden units of its own."""

from __future__ import annotations

from abc import abstractmethod
from typing import ClassVar

import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import UsageError
from mnemon.hypernet.task_buffers import TaskBuffers
from mnemon.inference.answer import in_pieces
from mnemon.learners.base import Answer, Counts
from mnemon.learners.one_network import AbstractOneNetworkLearner
from mnemon.models.gates import GatedChain
from mnemon.problem import Problem


class AbstractGatedLearner(AbstractOneNetworkLearner):
    """One network whose hidden units are gated task by task; statistics of batch norm are each task's own."""

    answers_unseen = False
    called: ClassVar[str]
    """The method's name in errors."""

    def __init__(self, problem: Problem):
        if problem.scenario is not Scenario.CL1:
            raise UsageError(
                f"{self.called} chooses its gates by the task, which is not given in {problem.scenario.value}: "
                "take training.scenario=cl1, or a method that infers the task."
            )
        super().__init__(problem, problem.network(problem.outputs.total))
        self.chain = GatedChain(self.network, problem.input_shape, self.called)
        self.buffers_of = TaskBuffers(self.network)

    @abstractmethod
    def gates(self, task_id: int) -> Tensor:
        """Return a task's gates, as they are when it answers."""

    def run(self, inputs: Tensor, task_id: int, gates: Tensor, training: bool) -> Tensor:
        """Return all outputs for inputs of a task."""
        self.network.train(training)
        return self.chain.run(inputs, gates, self.buffers_of[task_id])

    @torch.no_grad()
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        gates = self.gates(task_id)
        outputs = in_pieces(lambda piece: self.run(piece, task_id, gates, training=False), inputs)
        return self.problem.own_outputs(outputs, task_id)

    def answer(self, inputs: Tensor) -> Answer:
        raise UsageError(f"{self.called} needs the task: use predict.")

    def add_task(self) -> None:
        self.buffers_of.add(self.device)

    def transient(self, name: str) -> bool:
        # Every task has its own set of the network's buffers; the network's are only where they started.
        return name.startswith("network.") and name.removeprefix("network.") in dict(self.network.named_buffers())

    def counts(self) -> Counts:
        per_task = self.chain.size + self.buffers_of.numel_per_task
        n_bytes = 4 * self.chain.size + self.buffers_of.nbytes_per_task
        return Counts(self.size(), per_task, self.size(), self.problem.n_tasks, bytes_per_task=n_bytes)
