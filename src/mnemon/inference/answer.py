"""From outputs and scores to an answer, where nobody says which task it is."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from mnemon.benchmarks.scenario import Outputs
from mnemon.errors import UsageError
from mnemon.inference.base import AbstractInference, vote

BATCH = 2500
"""Inputs that a network takes at once: enough to be quick, few enough for a layer to fit into a core's caches."""
IMAGES = 500
"""Images taken at once: a network for images has a hundred times as many numbers in its layers as in them."""
IMAGES_IN_CACHES = 50
"""Images whose layers fit into a core's caches; with 500 at once a ResNet-32 takes twice as long."""
UNTOLD = 10_000
"""Inputs whose tasks are inferred at once: a whole test set, for which each task's weights are generated once."""

Predict = Callable[[Tensor, int], Tensor]
"""The logits of a task's own head for some inputs."""


def at_once(inputs: Tensor) -> int:
    """Return how many of some inputs are taken at once."""
    return IMAGES if inputs.ndim > 2 else BATCH


def in_pieces(network: Callable[[Tensor], Tensor], inputs: Tensor, size: int | None = None) -> Tensor:
    """Return a network's outputs, computed for so many inputs at once, or as many as is quick."""
    if size is None:
        small = inputs.ndim > 2 and inputs.device.type == "cpu"
        size = IMAGES_IN_CACHES if small else at_once(inputs)
    found = [network(piece) for piece in inputs.split(size)]
    return torch.cat(found) if len(found) > 1 else found[0]


def answer_by_network(logits: Tensor, outputs: Outputs, n_begun: int) -> tuple[Tensor, Tensor | None]:
    """Return the chosen output and its task, from all outputs of one network for all tasks."""
    _check_begun(n_begun)
    output_index = logits[:, slice(*outputs.seen(n_begun))].argmax(1)
    return output_index, outputs.task_of(output_index)


def answer_by_task(
    inference: AbstractInference, inputs: Tensor, predict: Predict, outputs: Outputs, group: int = 1
) -> tuple[Tensor, Tensor]:
    """Return the chosen output among all outputs, and the inferred task, of each input.

    The likeliest task's network speaks for each input; `group` inputs in a row have one vote together.
    """
    _check_begun(inference.n_begun)
    most = IMAGES if inputs.ndim > 2 else UNTOLD
    size = max(1, most // group) * group  # whole groups
    answers = [_answer(inference, part, predict, outputs, group) for part in inputs.split(size)]
    return torch.cat([output_index for output_index, _ in answers]), torch.cat([task for _, task in answers])


def _check_begun(n_begun: int) -> None:
    if not n_begun:
        raise UsageError("Nothing was learned yet: there is no task to choose.")


def _answer(
    inference: AbstractInference, inputs: Tensor, predict: Predict, outputs: Outputs, group: int
) -> tuple[Tensor, Tensor]:
    asked: dict[int, Tensor] = {}

    def ask(task_id: int) -> Tensor:
        if task_id not in asked:
            asked[task_id] = predict(inputs, task_id)
        return asked[task_id]

    task = vote(inference.scores(inputs, ask), group).argmax(1)
    output_index = torch.empty_like(task)
    for task_id in task.unique().tolist():
        chosen = task == task_id
        logits = asked[task_id][chosen] if task_id in asked else predict(inputs[chosen], task_id)
        output_index[chosen] = outputs.output_index(logits.argmax(1), task_id)
    return output_index, task
