"""How well a learner does on a task."""

from __future__ import annotations

import math

import torch

from mnemon.benchmarks.task import Kind, Task, TaskStream
from mnemon.learners.base import AbstractLearner

BATCH = 2500
"""Test examples answered at once: enough to be quick, few enough for any memory."""


@torch.no_grad()
def evaluate(learner: AbstractLearner, task: Task, task_id: int, kind: Kind) -> float:
    """Return the accuracy in percent, or the mean squared error, on a task's test set."""
    total = 0.0
    for start in range(0, len(task.test), BATCH):
        inputs, targets = task.test.batch(slice(start, start + BATCH))
        outputs = learner.predict(inputs, task_id)
        if kind is Kind.CLASSIFICATION:
            total += 100.0 * float((outputs.argmax(1) == targets).sum())
        else:
            total += float((outputs - targets).square().mean(1).sum())
    return total / len(task.test)


def evaluate_all(learner: AbstractLearner, stream: TaskStream, only: int | None = None) -> list[float]:
    """Return a row of the accuracy matrix; NaN where the learner has no answer yet, or for tasks left out."""
    row = [math.nan] * len(stream)
    for task_id, task in enumerate(stream.tasks):
        if (task_id < learner.n_begun or learner.answers_unseen) and only in (None, task_id):
            row[task_id] = evaluate(learner, task, task_id, stream.kind)
    return row
