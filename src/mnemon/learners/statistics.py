"""Sums over features alone, with no network: streaming linear discriminant analysis (Hayes & Kanan, 2020).

With random features it is the idea of RanPAC (McDonnell et al., 2023). Nothing is trained and nothing forgotten.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemon.benchmarks.task import TaskKind
from mnemon.errors import UsageError
from mnemon.inference.answer import answer_by_task
from mnemon.inference.statistics import StatisticsInference, SumsConfig
from mnemon.learners.base import AbstractLearner, Answer, Counts
from mnemon.problem import Batch, Problem, Terms


class StatisticsLearner(AbstractLearner):
    """The class answers that is likeliest by the sums of all tasks; a task is learned when it ends, at once."""

    @dataclass(frozen=True)
    class Config:
        """Settings of the method."""

        sums: SumsConfig = field(default_factory=SumsConfig)
        """The sums by which classes are told apart."""

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        if problem.kind is not TaskKind.CLASSIFICATION:
            raise UsageError("Statistics are for classification, and this is a regression: use method.name=hypernet.")
        self.config = config
        self.inference = StatisticsInference(config.sums, problem.input_shape, problem.outputs_per_task)

    def train_step(self, batch: Batch) -> Terms:
        return {"task_loss": torch.zeros((), device=batch.inputs.device)}  # all is done when the task ends

    @torch.no_grad()
    def predict(self, inputs: Tensor, task_id: int) -> Tensor:
        if task_id >= self.n_begun:
            raise IndexError(f"task {task_id} was not begun")
        found = self.inference.class_scores(inputs).view(len(inputs), self.n_begun, -1)[:, task_id]
        return found.to(inputs)

    @torch.no_grad()
    def answer(self, inputs: Tensor) -> Answer:
        return Answer(*answer_by_task(self.inference, inputs, self.predict, self.problem.outputs))

    def counts(self) -> Counts:
        with torch.device("meta"):
            size = sum(p.numel() for p in self.problem.network(self.problem.outputs.total).parameters())
        kept = self.inference
        return Counts(
            kept.count(),
            kept.numel_per_task,
            size,
            self.problem.n_tasks,
            bytes_per_task=kept.nbytes_per_task,
            bytes_learned=kept.nbytes_shared,
        )
