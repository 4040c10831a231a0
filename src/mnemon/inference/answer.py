"""From a task's score to an answer: the likeliest task's network speaks for each input."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Outputs
from mnemon.inference.base import AbstractInference, vote


def answer_by_task(
    inference: AbstractInference,
    inputs: Tensor,
    predict: Callable[[Tensor, int], Tensor],
    outputs: Outputs,
    group: int = 1,
) -> tuple[Tensor, Tensor]:
    """Return the chosen output among all outputs, and the inferred task, of each input.

    `predict` gives the logits of a task's own head; `group` inputs in a row have one vote together.
    """
    asked: dict[int, Tensor] = {}

    def ask(task_id: int) -> Tensor:
        if task_id not in asked:
            asked[task_id] = predict(inputs, task_id)
        return asked[task_id]

    task = vote(inference.scores(inputs, ask), group).argmax(1)
    place = torch.empty_like(task)
    for task_id in task.unique().tolist():
        chosen = task == task_id
        logits = asked[task_id][chosen] if task_id in asked else predict(inputs[chosen], task_id)
        place[chosen] = outputs.place(logits.argmax(1), task_id)
    return place, task
