"""Answer inputs of a task that is told, or of the task that they are taken for."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mnemon.continual.data import Data, Inputs, collect
from mnemon.continual.kinds import IGNORED, Goal, Kind, Loss, goal_for
from mnemon.continual.modules import said
from mnemon.continual.remembered import UNKNOWN, in_words, signature
from mnemon.continual.state import State
from mnemon.errors import UsageError
from mnemon.inference.entropy import entropy
from mnemon.seeding import own_random_numbers

FALSE_ALARMS = 0.05
"""Share of a task's own training inputs that would be called unknown."""
CALIBRATION = 2000
"""Training inputs on which that is measured."""


@dataclass(frozen=True)
class Prediction:
    """What the model says of some inputs."""

    task: list[str]
    """The task of each input, as told or as inferred; 'unknown' where no task is sure."""
    label: Tensor
    """The class of each input as the user labels it; truth values, or numbers."""
    confidence: Tensor
    """Probability of the class; NaN where there are no classes."""
    outputs: Tensor | None
    """What the module returned; None where inputs were answered by modules of different tasks."""

    @property
    def known(self) -> Tensor:
        """Whether some task was sure of each input."""
        return torch.tensor([name != UNKNOWN for name in self.task])


def evaluated(state: State, data: Any, task: str, infer: bool, loss: Loss | None) -> float:
    """Return how good the model is on data of a task, which it is told or has to infer."""
    place, goal = state.place(task), state.about(task).goal
    if loss is not None:
        if goal.kind is not Kind.OWN:
            raise UsageError(f"Task '{task}' was learned with {goal.kind.value}: it takes no other loss.")
        if not callable(loss):
            raise UsageError(f"loss must be a function of outputs and targets, not {loss!r}.")
        goal = replace(goal, own_loss=loss)
    found = collect(data).to(state.device, state.floats)
    goal_for(found.targets, goal.as_learned(task))  # refuses targets of another kind
    found = replace(found, targets=goal.places(found.targets))
    return inferred_score(state, found, place) if infer else score(state, found, place, goal, task)


# A task that is told


def outputs_of(state: State, inputs: Inputs, place: int) -> Tensor:
    """Return what a task's network says of inputs."""
    try:
        with own_random_numbers(0):
            return state.learner.outputs(inputs, place)
    except Exception as error:
        learned = state.tasks[place].inputs if place < len(state.tasks) else signature(inputs)
        raise UsageError(
            f"The module cannot take these inputs ({in_words(signature(inputs))}; it was learned with "
            f"{in_words(learned)}): {said(error)}"
        ) from error


def told(state: State, inputs: Inputs, place: int) -> Prediction:
    """Return the answer of a task's network."""
    remembered, outputs = state.tasks[place], outputs_of(state, inputs, place)
    goal, names = remembered.goal, [remembered.name] * len(inputs[0])
    if goal.kind is Kind.CLASSES:
        outputs = goal.cut(outputs)
        confidence, chosen = outputs.float().softmax(-1).max(-1)
        return Prediction(names, goal.labels(chosen), confidence, outputs)
    nothing = torch.full(outputs.shape[:1], math.nan, device=outputs.device)
    return Prediction(names, outputs > 0 if goal.kind is Kind.LABELS else outputs, nothing, outputs)


def score(state: State, data: Data, place: int, goal: Goal, name: str) -> float:
    """Return how good a task's network is on data."""
    inputs, targets = data.batch(slice(None))
    outputs = outputs_of(state, inputs, place)
    if goal.kind is not Kind.OWN:
        goal.check(outputs, targets, name)
    return goal.score(outputs, targets)


# A task that is not told


def inferred(state: State, inputs: Inputs) -> Prediction:
    """Return for each input the answer of the task that it is taken for."""
    _check_classes_only(state)
    each = [told(state, inputs, place) for place in range(len(state.tasks))]
    best, sure = _recognised(state, inputs, each)
    names = [state.names[i] if known else UNKNOWN for i, known in zip(best.tolist(), sure.tolist(), strict=True)]
    place = (best.to(state.device), torch.arange(len(best), device=state.device))
    label = torch.stack([answer.label for answer in each])[place]
    confidence = torch.stack([answer.confidence for answer in each])[place]
    return Prediction(names, label, confidence, None)


def inferred_score(state: State, data: Data, place: int) -> float:
    """Return the accuracy on data of a task that is not told; a wrong task is a wrong answer."""
    task, (inputs, targets) = state.tasks[place], data.batch(slice(None))
    answer = inferred(state, inputs)
    of_task = torch.tensor([name == task.name for name in answer.task], device=targets.device)
    right = task.goal.places(answer.label) == targets
    right &= of_task.view(-1, *[1] * (targets.ndim - 1))
    return 100.0 * float(right[targets != IGNORED].double().mean())


def usual_entropies(state: State, data: Data, place: int, goal: Goal) -> tuple[float, float] | None:
    """Return the middle of the log entropies of a task's training inputs, and what only a small share exceeds."""
    if goal.kind is not Kind.CLASSES:
        return None
    picked = torch.randperm(len(data))[:CALIBRATION].to(data.device)
    inputs, _ = data.batch(picked)
    found = _log_entropy(goal.cut(outputs_of(state, inputs, place)))
    return float(found.quantile(0.5)), float(found.quantile(1 - FALSE_ALARMS))


def _check_classes_only(state: State) -> None:
    if not state.tasks:
        raise UsageError("Nothing was learned yet.")
    others = [task.name for task in state.tasks if task.goal.kind is not Kind.CLASSES]
    if others:
        raise UsageError(f"Only tasks of classes can be inferred; say which task it is (such as '{others[0]}').")


def _recognised(state: State, inputs: Inputs, each: Sequence[Prediction]) -> tuple[Tensor, Tensor]:
    """Return the task that each input is taken for, and whether it is likely to be of any."""
    if state.learner.densities is not None:
        state.check_densities(inputs)
        scores = state.learner.likelihoods(inputs)
        return scores.argmax(1), state.learner.densities.known(scores)
    # Some networks are surer of everything than others: each is measured by how sure it usually is.
    usual = torch.tensor([task.entropies for task in state.tasks], dtype=torch.float64)
    above, best = (torch.stack([_log_entropy(answer.outputs) for answer in each]) - usual[:, :1]).min(0)
    return best, above <= (usual[:, 1] - usual[:, 0])[best]


def _log_entropy(outputs: Tensor | None) -> Tensor:
    """Return the logarithm of each answer's entropy, relative to that of a guess; of a sequence, its steps' mean.

    In float64, on the CPU: in float32 those of networks that are very sure would all be 0.
    """
    assert outputs is not None
    found = entropy(outputs.cpu().double().flatten(0, -2)) / math.log(outputs.shape[-1])
    return found.view(len(outputs), -1).mean(1).clamp_min(torch.finfo(torch.float64).tiny).log()
