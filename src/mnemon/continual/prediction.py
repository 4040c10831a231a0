"""Answer inputs of a task that is told, or of the task that they are taken for."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mnemon.continual.data import Data, Inputs, collect
from mnemon.continual.learned_task import UNKNOWN, LearnedTask, in_words, signature
from mnemon.continual.objective import IGNORED, Goal, Loss, ObjectiveKind, goal_for
from mnemon.continual.state import State
from mnemon.errors import CheckpointError, UsageError, first_line
from mnemon.inference.entropy import entropy
from mnemon.seeding import with_random_numbers

FALSE_ALARMS = 0.05
"""Share of a task's own training inputs that would be called unknown."""
CALIBRATION = 2000
"""Training inputs on which that is measured."""


@dataclass(frozen=True)
class Prediction:
    """The model's answers to some inputs.

    Example:
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3))
        >>> data = torch.rand(60, 4), torch.arange(60) % 3
        >>> learned = model.learn(data, task="monday", steps=5, quiet=True)
        >>> prediction = model.predict(torch.rand(2, 4), task="monday")
        >>> prediction.task, prediction.label.shape
        (['monday', 'monday'], torch.Size([2]))
    """

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


def evaluate(state: State, data: Any, task: str, infer: bool, loss: Loss | None) -> float:
    """Return how good the model is on data of a task, which it is told or has to infer."""
    index, goal = state.index_of(task), state.about(task).goal
    if loss is not None:
        if goal.kind is not ObjectiveKind.OWN:
            raise UsageError(f"Task '{task}' was learned with {goal.kind.value}: it takes no other loss.")
        if not callable(loss):
            raise UsageError(f"loss must be a function of outputs and targets, not {loss!r}.")
        goal = replace(goal, own_loss=loss)
    found = collect(data).to(state.device, state.floats)
    goal_for(found.targets, goal.as_learned(task))  # refuses targets of another kind
    found = replace(found, targets=goal.output_indices(found.targets))
    return score_without_task(state, found, index) if infer else score(state, found, index, goal, task)


# A task that is told


def outputs_of(state: State, inputs: Inputs, index: int) -> Tensor:
    """Return what a task's network says of inputs."""
    if index < len(state.tasks):
        _check_dimensions(inputs, state.tasks[index])
    try:
        return with_random_numbers(0, lambda: state.learner.outputs(inputs, index))
    except CheckpointError:  # a code that is damaged
        raise
    except Exception as error:
        learned = state.tasks[index].inputs if index < len(state.tasks) else signature(inputs)
        raise UsageError(
            f"The module cannot take these inputs ({in_words(signature(inputs))}; it was learned with "
            f"{in_words(learned)}): {first_line(error)}"
        ) from error


def _check_dimensions(inputs: Inputs, task: LearnedTask) -> None:
    """Refuse inputs with other numbers of dimensions than the task was learned with; their lengths may vary."""
    given, learned = signature(inputs), task.inputs
    if [len(shape) for shape, _ in given] == [len(shape) for shape, _ in learned]:
        return
    single = [len(shape) + 1 for shape, _ in given] == [len(shape) for shape, _ in learned]
    remedy = " One example needs a batch around it: x[None]." if single else ""
    raise UsageError(
        f"The inputs do not fit task '{task.name}': an example is {in_words(given)} here, and it was learned with "
        f"{in_words(learned)}.{remedy}"
    )


def predict_for_task(state: State, inputs: Inputs, index: int) -> Prediction:
    """Return the answer of a task's network."""
    remembered, outputs = state.tasks[index], outputs_of(state, inputs, index)
    goal, names = remembered.goal, [remembered.name] * len(inputs[0])
    if goal.kind is ObjectiveKind.CLASSES:
        outputs = goal.cut(outputs)
        confidence, chosen = outputs.float().softmax(-1).max(-1)
        return Prediction(names, goal.labels(chosen), confidence, outputs)
    nothing = torch.full(outputs.shape[:1], math.nan, device=outputs.device)
    return Prediction(names, outputs > 0 if goal.kind is ObjectiveKind.LABELS else outputs, nothing, outputs)


def score(state: State, data: Data, index: int, goal: Goal, name: str) -> float:
    """Return how good a task's network is on data."""
    inputs, targets = data.batch(slice(None))
    outputs = outputs_of(state, inputs, index)
    if goal.kind is not ObjectiveKind.OWN:
        goal.check(outputs, targets, name)
    return goal.score(outputs, targets)


# A task that is not told


def predict_without_task(state: State, inputs: Inputs) -> Prediction:
    """Return for each input the answer of the task that it is taken for."""
    _check_classes_only(state)
    by_density = state.learner.densities is not None
    best = _find_most_likely(state, inputs) if by_density else _find_lowest_entropy(state, inputs)
    known, names = best.known.tolist(), state.names
    tasks = [names[index] if known[i] else UNKNOWN for i, index in enumerate(best.index.tolist())]
    return Prediction(tasks, best.label, best.confidence, None)


def score_without_task(state: State, data: Data, index: int) -> float:
    """Return the accuracy on data of a task that is not told; a wrong task is a wrong answer."""
    task, (inputs, targets) = state.tasks[index], data.batch(slice(None))
    answer = predict_without_task(state, inputs)
    of_task = torch.tensor([name == task.name for name in answer.task], device=targets.device)
    right = task.goal.output_indices(answer.label) == targets
    right &= of_task.view(-1, *[1] * (targets.ndim - 1))
    return 100.0 * float(right[targets != IGNORED].double().mean())


def usual_entropies(state: State, data: Data, index: int, goal: Goal) -> tuple[float, float] | None:
    """Return the middle of the log entropies of a task's training inputs, and what only a small share exceeds."""
    if goal.kind is not ObjectiveKind.CLASSES:
        return None
    picked = torch.randperm(len(data))[:CALIBRATION].to(data.device)
    inputs, _ = data.batch(picked)
    found = _log_entropy(goal.cut(outputs_of(state, inputs, index)))
    return float(found.quantile(0.5)), float(found.quantile(1 - FALSE_ALARMS))


def _check_classes_only(state: State) -> None:
    if not state.tasks:
        raise UsageError("Nothing was learned yet.")
    others = [task.name for task in state.tasks if task.goal.kind is not ObjectiveKind.CLASSES]
    if others:
        raise UsageError(f"Only tasks of classes can be inferred; say which task it is (such as '{others[0]}').")


class _Best:
    """The best answer to each input so far: tasks are asked one by one, and only the best answers are kept."""

    label: Tensor
    confidence: Tensor

    def __init__(self, n: int, device: torch.device):
        self.index = torch.full((n,), -1, device=device)
        self.known = torch.zeros(n, dtype=torch.bool, device=device)

    def take(self, index: int, answer: Prediction, where: Tensor, known: Tensor) -> None:
        """Take over the answers of a task to some inputs."""
        if bool((self.index < 0).all()):
            self.label, self.confidence = answer.label.clone(), answer.confidence.clone()
        self.index[where] = index
        self.known[where] = known[where]
        self.label[where], self.confidence[where] = answer.label[where], answer.confidence[where]


def _find_lowest_entropy(state: State, inputs: Inputs) -> _Best:
    """Ask all tasks, and take the answer of the one that is surest, beside how sure it usually is."""
    best = _Best(len(inputs[0]), state.device)
    least = torch.full((len(inputs[0]),), math.inf, dtype=torch.float64)
    for index, task in enumerate(state.tasks):
        assert task.entropies is not None
        usual, seldom = task.entropies
        answer = predict_for_task(state, inputs, index)
        above = _log_entropy(answer.outputs) - usual
        where = above < least
        least[where] = above[where]
        known = above <= seldom - usual
        best.take(index, answer, where.to(state.device), known.to(state.device))
    return best


def _find_most_likely(state: State, inputs: Inputs) -> _Best:
    """Ask for each input the task under whose density it is most likely."""
    assert state.learner.densities is not None
    state.check_densities(inputs)
    scores = state.learner.likelihoods(inputs)
    chosen, known = scores.argmax(1), state.learner.densities.known(scores)
    best = _Best(len(chosen), state.device)
    for index in chosen.unique().tolist():
        best.take(index, predict_for_task(state, inputs, index), chosen == index, known)
    return best


def _log_entropy(outputs: Tensor | None) -> Tensor:
    """Return the logarithm of each answer's entropy, relative to that of a guess; of a sequence, its steps' mean.

    In float64, on the CPU: in float32 those of networks that are very sure would all be 0.
    """
    assert outputs is not None
    found = entropy(outputs.cpu().double().flatten(0, -2)) / math.log(outputs.shape[-1])
    return found.view(len(outputs), -1).mean(1).clamp_min(torch.finfo(torch.float64).tiny).log()
