"""How well a learner does on a task, told what the scenario tells it."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Kind, Task, TaskStream
from mnemon.learners.base import AbstractLearner

BATCH = 2500
"""Test examples answered at once: enough to be quick, few enough for any memory."""


class Score(NamedTuple):
    """How well a task is done."""

    value: float
    """Accuracy in percent, or mean squared error."""
    inferred: float
    """Percentage of inputs whose task was inferred right; NaN where the task is told or nobody asks for it."""


@torch.no_grad()
def evaluate(learner: AbstractLearner, task: Task, task_id: int) -> Score:
    """Return the score on a task's test set."""
    value = inferred = 0.0
    group = learner.judged_together
    at_once = max(1, BATCH // group) * group  # a group that is judged together stays together
    for start in range(0, len(task.test), at_once):
        inputs, targets = task.test.batch(slice(start, start + at_once))
        one, other = _score(learner, inputs, targets, task_id)
        value, inferred = value + one, inferred + other
    return Score(value / len(task.test), inferred / len(task.test))


def _score(learner: AbstractLearner, inputs: Tensor, targets: Tensor, task_id: int) -> Score:
    """Return the sums over a batch."""
    problem = learner.problem
    if problem.scenario is Scenario.CL1:
        outputs = learner.predict(inputs, task_id)
        if problem.kind is Kind.CLASSIFICATION:
            return Score(_percent(outputs.argmax(1) == targets), math.nan)
        return Score(float((outputs - targets).square().mean(1).sum()), math.nan)
    answer = learner.answer(inputs)
    right = answer.place == problem.outputs.place(targets, task_id)
    return Score(_percent(right), math.nan if answer.task is None else _percent(answer.task == task_id))


def _percent(right: Tensor) -> float:
    return 100.0 * float(right.sum())


def evaluate_all(learner: AbstractLearner, stream: TaskStream, only: int | None = None) -> list[Score]:
    """Return a row of scores; NaN where the learner has no answer yet, or for tasks left out."""
    row = [Score(math.nan, math.nan)] * len(stream)
    told = learner.problem.scenario is Scenario.CL1
    for task_id, task in enumerate(stream.tasks):
        if (task_id < learner.n_begun or (learner.answers_unseen and told)) and only in (None, task_id):
            row[task_id] = evaluate(learner, task, task_id)
    return row
