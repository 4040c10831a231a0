"""Learn a task from its data: check the data, plan the steps, take them, and store the task."""

from __future__ import annotations

import functools
import math
import numbers
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from mnemon.continual import drift
from mnemon.continual.data import Data, Inputs, collect
from mnemon.continual.learned_task import LearnedTask, in_words, signature
from mnemon.continual.modules import check_functional
from mnemon.continual.objective import Goal, Loss, ObjectiveKind, goal_for
from mnemon.continual.prediction import score, usual_entropies
from mnemon.continual.recognition import OwnRecogniser
from mnemon.continual.starting import choose_start
from mnemon.continual.state import State
from mnemon.errors import TrainingError, UsageError, first_line
from mnemon.memory import fineness
from mnemon.memory.exact import ExactMemory
from mnemon.seeding import with_random_numbers
from mnemon.training.batches import Shuffled

BESIDE_THE_NAME = 45
"""Columns of a terminal that the bar, the loss and the time take."""


@dataclass(frozen=True)
class LearnOptions:
    """The options of `learn` and `relearn`."""

    validation: Any
    epochs: float | None
    steps: int | None
    batch_size: int
    loss: str | Loss
    quiet: bool


@dataclass(frozen=True)
class CheckedData:
    """Data with targets as indices of the outputs, and the goal of the task."""

    data: Data
    goal: Goal


def learn(state: State, data: Any, task: str, options: LearnOptions) -> LearnedTask:
    """Learn a new task, or leave the model as it was."""
    state.check_new(task)
    found = read_data(state, data, options.loss, task)
    plan = plan_for(len(found.data), options)

    def work() -> LearnedTask:
        tested = _check(state, found, task, plan, options.validation)
        state.at_moment(state.n_learned, 0, lambda: state.learner.begin_task(len(state.tasks)))
        return _train(state, task, found, tested, plan)

    return state.all_or_nothing(work)


def relearn(state: State, data: Any, task: str, options: LearnOptions) -> LearnedTask:
    """Learn more of a learned task, or leave the model as it was."""
    earlier = state.about(task)
    loss = earlier.goal.as_learned(task) if options.loss == "auto" else options.loss
    found = read_data(state, data, loss, task, earlier.goal)
    plan = plan_for(len(found.data), options)

    def work() -> LearnedTask:
        tested = _check(state, found, task, plan, options.validation)
        state.at_moment(state.n_learned, 0, lambda: begin_again(state, task))
        return _train(state, task, found, tested, plan, earlier)

    return state.all_or_nothing(work)


def begin_again(state: State, task: str) -> None:
    """Prepare to learn more of a learned task."""
    index = state.index_of(task)
    state.learner.begin_again(index)
    if state.sums is not None:
        state.sums.begin_again(index)
    del state.tasks[index]


def finish(
    state: State,
    task: str,
    found: CheckedData,
    steps: int,
    serial: int,
    n_examples: int,
    tested: Data | None = None,
    losses: Iterable[float] = (),
) -> LearnedTask:
    """Store a learned task, with what is known of it."""
    data, goal, index = found.data, found.goal, len(state.tasks)
    scored_on = "training data" if tested is None else "validation data"

    def end() -> tuple[float, tuple[float, float] | None, tuple[tuple[float, ...], tuple[float, ...]]]:
        settle(state, task, data, goal)
        state.learner.end_task(data.to(state.device, state.learner.floats))
        _take_note(state, task, data, goal, serial)
        reached = score(state, data if tested is None else tested, index, goal, task)
        return reached, usual_entropies(state, data, index, goal), drift.keep(state, data, goal, index)

    reached, sure, (sketch, calibration) = state.at_moment(serial, steps + 1, end)
    state.tasks.append(
        LearnedTask(
            task,
            goal,
            signature(data.inputs),
            n_examples,
            steps,
            reached,
            sure,
            serial,
            tuple(losses),
            scored_on,
            sketch,
            calibration,
        )
    )
    state.n_learned += 1
    state.warned.discard(task)
    drift.warn_of_loss(state)
    return state.tasks[-1]


def _take_note(state: State, task: str, data: Data, goal: Goal, serial: int) -> None:
    """Let the recogniser learn the inputs of a task."""
    if state.sums is not None:
        state.sums.learn(data, goal, [*(known.serial for known in state.tasks), serial])
    elif isinstance(state.recogniser, OwnRecogniser):
        inputs, targets = data.batch(slice(None))
        named = bool(goal.classes) and bool((targets >= 0).all())
        state.recogniser.learn(inputs, goal.labels(targets) if named else targets, task)


# The data


def settle(state: State, task: str, data: Data, goal: Goal) -> None:
    """Round the network of the present task as coarsely as its tolerance allows, if it will be kept as a code."""
    memory = state.learner.memory
    if not isinstance(memory, ExactMemory):
        return
    picked = torch.randperm(len(data))[: fineness.COUNTED].to(data.device)
    some = replace(data, inputs=tuple(part[picked] for part in data.inputs), targets=data.targets[picked])
    better, tolerance = goal.kind.higher_is_better, state.settings.tolerance
    tolerance = fineness.usual_tolerance(len(some), better) if tolerance is None else tolerance
    met = fineness.settle(
        lambda: score(state, some, len(state.tasks), goal, task),
        memory.round_by,
        memory.finer_than_learned(),
        lambda rounded, plain: fineness.loses(rounded, plain, tolerance, better),
    )
    if not met:
        warnings.warn(
            f"Task '{task}' is kept with {fineness.DIGITS} bits per weight: with fewer it would lose more than "
            "the tolerance allows.",
            stacklevel=2,
        )


def read_data(
    state: State, data: Any, loss: str | Loss, task: str, earlier: Goal | None = None, what: str = "data"
) -> CheckedData:
    """Return data as tensors on the model's device, with the goal that follows from them."""
    found = collect(data, what).to(state.device, state.floats)
    goal = goal_for(found.targets, loss)
    if earlier is None:
        if len(goal.classes) == 1:
            raise UsageError(f"Task '{task}' has only class {goal.classes[0]}: it needs at least two classes.")
    elif goal.kind is not earlier.kind:
        raise UsageError(f"Task '{task}' was learned with {earlier.kind.in_words}: leave out the loss.")
    elif new := sorted({*goal.classes} - {*earlier.classes}):
        remedy = ": learn the new classes as a new task" if what == "data" else f", which the {what} hold"
        raise UsageError(f"Task '{task}' has no class {', '.join(str(c) for c in new)}{remedy}.")
    elif goal.kind is not ObjectiveKind.OWN:
        goal = earlier
    return CheckedData(replace(found, targets=goal.output_indices(found.targets)), goal)


def _check(state: State, found: CheckedData, task: str, plan: TrainingPlan, validation: Any) -> Data | None:
    """Check that the module can learn from the data; return the validation data, if there are any."""

    def check() -> CheckedData | None:
        check_fit(state, task, found, plan.batch_size)
        if validation is None:
            return None
        tested = read_data(state, validation, found.goal.as_learned(task), task, found.goal, "validation data")
        check_fit(state, task, tested)
        return tested

    tested = with_random_numbers(0, check)
    state.make_densities(found.data.batch(slice(None))[0])
    return tested.data if tested else None


def check_fit(state: State, task: str, found: CheckedData, batch_size: int | None = None) -> None:
    """Run the module on some examples, so that errors come with a clear message."""
    outputs = try_module(state, f"task '{task}'", found.data, batch_size)
    found.goal.check(outputs, found.data.targets[:2], task)
    if not state.tasks:
        inputs, _ = found.data.batch(slice(16))  # the first ones may be blank
        check_functional(state.learner.memory.target, inputs, lambda: state.seed(0, 0))


def try_module(state: State, whose: str, data: Data, batch_size: int | None = None) -> Any:
    """Return the outputs of the module for two examples; with a size, check that it can learn from batches, too."""
    inputs, _ = data.batch(slice(2))
    try:
        outputs = state.learner.start(inputs, training=False)
        if batch_size is not None:  # batch norm, for one, learns from several examples only
            state.learner.start(data.batch(slice(batch_size))[0], training=True)
    except Exception as error:
        raise UsageError(
            f"The module cannot take the inputs of {whose} ({in_words(signature(inputs))}): {first_line(error)}"
        ) from error
    return outputs


# The steps


@dataclass(frozen=True)
class TrainingPlan:
    """How many steps to learn, and the batch size."""

    steps: int
    batch_size: int
    quiet: bool


MOST = 2**62
"""Counts stay below this, so that results of computing with them fit into 63 bits."""


def check_count(name: str, value: Any) -> None:
    """Refuse a value that is not a number of steps, examples or batches."""
    if isinstance(value, bool) or not isinstance(value, numbers.Integral) or int(value) < 1:
        raise UsageError(f"{name} must be a whole number of at least 1, not {value!r}.")
    if int(value) >= MOST:
        raise UsageError(f"{name} must be below 2**62, not {value!r}.")


def plan_for(n: int, options: LearnOptions) -> TrainingPlan:
    """Return how long to learn from n examples; by default some hundred steps at least."""
    epochs, steps = options.epochs, options.steps
    if epochs is not None and steps is not None:
        raise UsageError("Give epochs or steps, not both.")
    if steps is not None:
        check_count("steps", steps)
    check_count("batch_size", options.batch_size)
    if epochs is not None and (isinstance(epochs, bool) or not isinstance(epochs, numbers.Real) or not epochs > 0):
        raise UsageError(f"epochs must be a number above 0, not {epochs!r}.")
    if epochs is not None and not epochs < MOST:
        raise UsageError(f"epochs must be below 2**62, not {epochs!r}.")
    batch_size = min(int(options.batch_size), n)
    if steps is None:
        per_epoch = n / batch_size
        steps = min(5000, max(600, round(30 * per_epoch))) if epochs is None else max(1, round(epochs * per_epoch))
    return TrainingPlan(int(steps), batch_size, options.quiet)


def _train(
    state: State,
    task: str,
    found: CheckedData,
    tested: Data | None,
    plan: TrainingPlan,
    earlier: LearnedTask | None = None,
) -> LearnedTask:
    data, serial = found.data, state.n_learned
    batches = Shuffled(data, state.settings.seed, "batches", serial)

    def batch(step: int) -> tuple[Inputs, Tensor]:
        inputs, targets = batches.take(step * plan.batch_size, plan.batch_size)
        return inputs, targets

    def take(step: int) -> float:
        inputs, targets = batch(step)
        return float(state.learner.train_step(inputs, targets, found.goal, step / plan.steps)["task_loss"])

    if earlier is None:
        choose_start(state, data, found.goal, batch, plan.steps, plan.batch_size)
    with _progress(task, plan.steps, plan.quiet) as show:
        for step in range(plan.steps):
            loss = state.at_moment(serial, step + 1, functools.partial(take, step))
            if not math.isfinite(loss):
                raise TrainingError(
                    f"The loss of task '{task}' became {loss} in step {step + 1}: try a smaller lr. "
                    "The model is as it was before."
                )
            show(step + 1, loss)
    if not state.learner.is_finite():
        raise TrainingError(
            f"The gradient of task '{task}' became infinite: try a smaller lr. The model is as it was before."
        )
    n_examples = len(data) + (earlier.n_examples if earlier else 0)
    losses = earlier.losses if earlier else ()
    return finish(state, task, found, plan.steps, serial, n_examples, tested, losses)


@contextmanager
def _progress(task: str, steps: int, quiet: bool) -> Iterator[Callable[[int, float], None]]:
    if quiet or not sys.stderr.isatty():
        yield lambda step, loss: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn
    from rich.table import Column

    console = Console(stderr=True)
    # A long name is cropped before the bar, the loss and the time are.
    room = Column(max_width=max(10, console.width - BESIDE_THE_NAME), no_wrap=True, overflow="ellipsis")
    columns = (
        TextColumn("{task.description}", markup=False, table_column=room),
        BarColumn(bar_width=20),
        TextColumn("{task.fields[loss]}"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        shown = bar.add_task(f"learning {task}", total=steps, loss="")
        yield lambda step, loss: bar.update(shown, completed=step, loss=f"loss {loss:.4f}")
