"""Measure the score of a learner on a task, in its scenario."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import Task, TaskKind, TaskStream
from mnemon.inference.answer import at_once
from mnemon.learners.base import AbstractLearner


class Score(NamedTuple):
    """The score on a task."""

    value: float
    """Accuracy in percent, or mean squared error."""
    inferred: float
    """Task identification accuracy in percent; NaN if the task is told or not inferred."""


@torch.no_grad()
def evaluate(learner: AbstractLearner, task: Task, task_id: int) -> Score:
    """Return the score on a task's test set."""
    if learner.problem.scenario is Scenario.CL1:
        return Score(_evaluate_told(learner, task, task_id) / len(task.test), math.nan)
    inputs, targets = task.test.batch(slice(None))
    answer = learner.answer(inputs)
    right = answer.output_index == learner.problem.outputs.output_index(targets, task_id)
    inferred = math.nan if answer.task is None else _percent(answer.task == task_id) / len(inputs)
    return Score(_percent(right) / len(inputs), inferred)


def _evaluate_told(learner: AbstractLearner, task: Task, task_id: int) -> float:
    """Return the summed score over a test set, with the task told."""
    total, size, predict = 0.0, at_once(task.test.inputs), learner.predictor(task_id)
    for start in range(0, len(task.test), size):
        inputs, targets = task.test.batch(slice(start, start + size))
        outputs = predict(inputs)
        if learner.problem.kind is TaskKind.CLASSIFICATION:
            total += _percent(outputs.argmax(1) == targets)
        else:
            total += float((outputs - targets).square().mean(1).sum())
    return total


def _percent(right: Tensor) -> float:
    return 100.0 * float(right.sum())


def evaluate_all(learner: AbstractLearner, stream: TaskStream, only: int | None = None) -> list[Score]:
    """Return a row of scores; NaN for tasks without an answer yet, or left out."""
    row = [Score(math.nan, math.nan)] * len(stream)
    told = learner.problem.scenario is Scenario.CL1
    for task_id, task in enumerate(stream.tasks):
        if (task_id < learner.n_begun or (learner.answers_unseen and told)) and only in (None, task_id):
            row[task_id] = evaluate(learner, task, task_id)
    return row
