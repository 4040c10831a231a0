"""Answer inputs of a task that is told, or that is inferred."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mnemon.continual.data import Data, Inputs, collect
from mnemon.continual.learned_task import UNKNOWN, LearnedTask, in_words, signature
from mnemon.continual.objective import IGNORED, Goal, Loss, ObjectiveKind, goal_for
from mnemon.continual.recognition import OwnRecogniser, Recognised, Way
from mnemon.continual.state import State
from mnemon.errors import CheckpointError, UsageError, first_line
from mnemon.inference.base import vote as averaged
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
    """The task of each input, told or inferred; 'unknown' for an input that is unlike all tasks."""
    label: Tensor
    """The class of each input as the user labels it; or booleans (labels), or numbers."""
    confidence: Tensor
    """Probability of the class; NaN where there are no classes."""
    outputs: Tensor | None
    """What the module returned; None if the task was inferred."""
    probability: Tensor | None = None
    """Probability of every class of every task, one row per input; only where tasks are recognised by statistics."""
    choices: tuple[tuple[str, int | None], ...] = ()
    """The task and the class of each column of `probability`; no class for tasks without classes."""

    @property
    def known(self) -> Tensor:
        """Whether each input has a known task."""
        return torch.tensor([name != UNKNOWN for name in self.task])


def evaluate(state: State, data: Any, task: str, infer: bool, loss: Loss | None, vote: int = 1) -> float:
    """Return the score on data of a task, which is told or must be inferred."""
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
    return score_without_task(state, found, index, vote) if infer else score(state, found, index, goal, task)


# A task that is told


def outputs_of(state: State, inputs: Inputs, index: int) -> Tensor:
    """Return the outputs of a task's network."""
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
    remedy = " A single example needs a batch dimension: x[None]." if single else ""
    raise UsageError(
        f"The inputs do not fit task '{task.name}': an example is {in_words(given)}, but the task was learned with "
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
    """Return the score of a task's network on data."""
    inputs, targets = data.batch(slice(None))
    outputs = outputs_of(state, inputs, index)
    if goal.kind is not ObjectiveKind.OWN:
        goal.check(outputs, targets, name)
    return goal.score(outputs, targets)


# A task that is not told


def predict_without_task(state: State, inputs: Inputs, vote: int = 1) -> Prediction:
    """Return for each input the answer of its inferred task; `vote` inputs in a row are of one task."""
    _check_vote(vote)
    if state.settings.recognise == Way.ENTROPY:
        best = _find_lowest_entropy(state, inputs, vote)
        return Prediction(_names(state, best.index, best.known), best.label, best.confidence, None)
    found = infer_tasks(state, inputs, vote)
    label, confidence = _answers(state, inputs, found.index)
    tasks = _names(state, found.index, found.known)
    return Prediction(tasks, label, confidence, None, found.probability, _choices(state, found))


def infer_tasks(state: State, inputs: Inputs, vote: int = 1) -> Recognised:
    """Infer the task of each input, on the CPU."""
    _check_vote(vote)
    if not state.tasks:
        raise UsageError("Nothing was learned yet.")
    if state.settings.recognise == Way.NONE:
        raise UsageError(f"recognise=None: give the task (such as task='{state.names[0]}').")
    if state.settings.recognise == Way.ENTROPY:
        best = _find_lowest_entropy(state, inputs, vote)
        return Recognised(best.index.cpu(), best.known.cpu())
    allowed = [_fits(inputs, task) for task in state.tasks]
    if not any(allowed):
        _check_dimensions(inputs, state.tasks[0])
    if state.sums is not None:
        return state.sums.recognise(inputs, allowed, vote)
    if isinstance(state.recogniser, OwnRecogniser):
        return state.recogniser.recognise(inputs, state.names, allowed, vote)
    return _find_most_likely(state, inputs, vote)


def score_without_task(state: State, data: Data, index: int, vote: int = 1) -> float:
    """Return the accuracy on data of a task that is not told; a wrong task is a wrong answer."""
    task, (inputs, targets) = state.tasks[index], data.batch(slice(None))
    if task.goal.kind is not ObjectiveKind.CLASSES:
        raise UsageError(f"infer=True measures only the accuracy of classes; task '{task.name}' has none.")
    found = infer_tasks(state, inputs, vote)
    of_task = ((found.index == index) & found.known).to(targets.device)
    right = task.goal.output_indices(predict_for_task(state, inputs, index).label) == targets
    right &= of_task.view(-1, *[1] * (targets.ndim - 1))
    return 100.0 * float(right[targets != IGNORED].double().mean())


def _names(state: State, index: Tensor, known: Tensor) -> list[str]:
    names = state.names
    return [names[i] if sure else UNKNOWN for i, sure in zip(index.tolist(), known.tolist(), strict=True)]


def _choices(state: State, found: Recognised) -> tuple[tuple[str, int | None], ...]:
    if found.probability is None or state.sums is None:
        return ()
    pairs: list[tuple[str, int | None]] = []
    for task, sums in zip(state.tasks, state.sums.tasks, strict=True):
        whole = len(sums.counts) == 1 and len(task.goal.classes) != 1
        pairs += [(task.name, label) for label in ((None,) if whole else task.goal.classes)]
    return tuple(pairs)


def _answers(state: State, inputs: Inputs, index: Tensor) -> tuple[Tensor, Tensor]:
    """Return label and confidence of each input by the network of its task."""
    rows = [(index == task).nonzero()[:, 0].to(state.device) for task in index.unique().tolist()]
    found = [
        predict_for_task(state, tuple(part[row] for part in inputs), task)
        for task, row in zip(index.unique().tolist(), rows, strict=True)
    ]
    if len({(answer.label.shape[1:], answer.confidence.shape[1:]) for answer in found}) > 1:
        raise UsageError(
            "These inputs were assigned to tasks whose answers have different shapes: call model.recognise(x), "
            "then predict for each task."
        )
    order = torch.cat(rows).argsort()
    labels = [answer.label for answer in found]
    kind = labels[0].dtype
    for label in labels:
        kind = torch.promote_types(kind, label.dtype)
    return torch.cat([label.to(kind) for label in labels])[order], torch.cat([a.confidence for a in found])[order]


def _fits(inputs: Inputs, task: LearnedTask) -> bool:
    """Tell whether inputs have as many dimensions as the inputs of a task."""
    return [part.ndim - 1 for part in inputs] == [len(shape) for shape, _ in task.inputs]


def _check_vote(vote: int) -> None:
    if isinstance(vote, bool) or not isinstance(vote, int) or vote < 1:
        raise UsageError(f"vote must be a whole number of at least 1, not {vote!r}.")


def usual_entropies(state: State, data: Data, index: int, goal: Goal) -> tuple[float, float] | None:
    """Return the median of the log entropies of a task's training inputs, and a high quantile."""
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
        raise UsageError(
            f"Only tasks with classes can be inferred by entropy; give the task (such as task='{others[0]}')."
        )


class _Best:
    """The best answer to each input so far: tasks are asked one by one, and only the best answers are kept."""

    label: Tensor
    confidence: Tensor

    def __init__(self, n: int, device: torch.device):
        self.index = torch.full((n,), -1, device=device)
        self.known = torch.zeros(n, dtype=torch.bool, device=device)

    def take(self, index: int, answer: Prediction, where: Tensor, known: Tensor) -> None:
        """Store the answers of a task to some inputs."""
        if bool((self.index < 0).all()):
            self.label, self.confidence = answer.label.clone(), answer.confidence.clone()
        self.index[where] = index
        self.known[where] = known[where]
        self.label[where], self.confidence[where] = answer.label[where], answer.confidence[where]


def _find_lowest_entropy(state: State, inputs: Inputs, vote: int = 1) -> _Best:
    """Return the answers of the task with the lowest entropy, relative to the task's usual entropy."""
    _check_classes_only(state)
    best = _Best(len(inputs[0]), state.device)
    least = torch.full((len(inputs[0]),), math.inf, dtype=torch.float64)
    for index, task in enumerate(state.tasks):
        assert task.entropies is not None
        usual, seldom = task.entropies
        answer = predict_for_task(state, inputs, index)
        above = averaged(_log_entropy(answer.outputs)[:, None], vote)[:, 0] - usual
        where = above < least
        least[where] = above[where]
        known = above <= seldom - usual
        best.take(index, answer, where.to(state.device), known.to(state.device))
    return best


def _find_most_likely(state: State, inputs: Inputs, vote: int) -> Recognised:
    """Infer for each input the task whose density gives it the highest likelihood."""
    assert state.learner.densities is not None
    state.check_densities(inputs)
    scores = averaged(state.learner.likelihoods(inputs), vote)
    return Recognised(scores.argmax(1).cpu(), state.learner.densities.known(scores).cpu())


def _log_entropy(outputs: Tensor | None) -> Tensor:
    """Return the logarithm of each answer's entropy, relative to that of a guess; of a sequence, its steps' mean.

    In float64, on the CPU: in float32 very low entropies would all be 0.
    """
    assert outputs is not None
    found = entropy(outputs.cpu().double().flatten(0, -2)) / math.log(outputs.shape[-1])
    return found.view(len(outputs), -1).mean(1).clamp_min(torch.finfo(torch.float64).tiny).log()
