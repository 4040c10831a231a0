"""Learn from a stream of batches without task boundaries.

The loss of every batch is measured before the batch is learned. While it is about as low as lately, the batch belongs
to the present task. If it is much higher for several batches in a row, the task has changed. If the network of an
earlier task has about its usual loss on them, the stream has returned to that task. Otherwise a new task begins.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mnemon import interrupts
from mnemon.continual.data import Data, Inputs, collect
from mnemon.continual.learned_task import Signature, in_words, signature
from mnemon.continual.learning import CheckedData, begin_again, check_count, check_fit, finish, try_module
from mnemon.continual.objective import IGNORED, Goal, Loss, ObjectiveKind, goal_for
from mnemon.continual.state import State, check_name
from mnemon.errors import TrainingError, UsageError
from mnemon.seeding import with_random_numbers

LATELY = 8
"""Number of recent batches that give the level of a task's loss."""
LEAST = 3
"""Minimum number of batches of a task before a change can be noticed."""
FLOOR = 0.2
"""Minimum chance difference of losses: absolute (classes, labels), or as a share of the untrained module's loss."""


@dataclass(frozen=True)
class Switch:
    """A change of task that was noticed in a stream.

    Example:
        >>> mnemon.Switch(batch=12, task="task 2", new=True).task
        'task 2'
    """

    batch: int
    """Number of the first batch after the change, counted from 0."""
    task: str
    """The task after the change."""
    new: bool
    """Whether that task is new; otherwise the stream has returned to it."""


@dataclass
class Level:
    """The level of a task's recent losses, measured on batches before they were learned."""

    floor: float = FLOOR
    losses: deque[float] = field(default_factory=lambda: deque(maxlen=LATELY))

    def bound(self, strictness: float) -> float:
        """Return the highest loss that may still be chance; the stricter, the lower.

        It uses medians: the losses of a task fall quickly after a change, and a single batch may be an outlier.
        """
        middle = statistics.median(self.losses)
        spread = 1.48 * statistics.median(abs(loss - middle) for loss in self.losses)
        return middle + max(self.floor, 0.5 * abs(middle), 4 * spread) / strictness

    def is_surprised(self, loss: float) -> bool:
        """Tell whether a loss is too high to be chance."""
        return len(self.losses) >= LEAST and not loss <= self.bound(1)

    def explains(self, losses: Sequence[float]) -> bool:
        """Tell whether losses are about as low as usual."""
        return len(self.losses) >= LEAST and statistics.fmean(losses) <= self.bound(2)


class StreamLearner:
    """Learns batch after batch, and detects new and returning tasks."""

    def __init__(self, state: State, name: str, steps: int, recent: int, patience: int, loss: str | Loss):
        for what, value in (("steps", steps), ("recent", recent), ("patience", patience)):
            check_count(what, value)
        check_name(name)
        self.state, self.name, self.loss = state, name, loss
        self.steps, self.patience = int(steps), int(patience)
        self.recent: deque[Data] = deque(maxlen=int(recent))
        self.waiting: list[Data] = []
        """Batches with a surprising loss, until their task is clear."""
        self.levels: dict[str, Level] = {}
        self.floor = FLOOR
        self.form: Signature = ()
        """Shapes and types of the inputs and targets of an example."""
        self.smallest: float = math.inf
        """Size of the smallest batch from which the module has learned without an error."""
        self.goal: Goal | None = None
        self.present: str | None = None
        self.switches: list[Switch] = []
        self.n_batches = self.n_steps = self.n_examples = 0

    def run(self, batches: Iterable[Any]) -> list[Switch]:
        """Learn from all batches; what was learned is kept even if the stream fails."""
        if not isinstance(batches, Iterable):
            raise UsageError(f"A stream must be an iterable of batches, not {type(batches).__name__}.")
        mend = self.state.mender()

        def work() -> None:
            for batch in batches:  # with the user's random numbers: the stream is the user's
                with_random_numbers(0, functools.partial(self._take, batch))
            with_random_numbers(0, self._settle)

        def end(done: bool) -> None:
            mend()
            with_random_numbers(0, self._end)

        interrupts.between(lambda asked: True, work, end)
        if not self.n_batches:
            raise UsageError("The stream is empty.")
        return self.switches

    def _end(self) -> None:
        """Finish the present task; if that fails, drop it."""
        try:
            self._close()
        except BaseException:
            self.state.drop_unfinished()
            raise

    # Checking batches

    def _check_batch(self, batch: Any) -> Data:
        what = f"batch {self.n_batches}"
        data = collect(batch, what).to(self.state.device, self.state.floats)
        form = (*signature(data.inputs), *signature((data.targets,)))
        if self.goal is None:
            self.form, self.goal = form, self._goal(data)
            self._know_again(data, self.goal)
        if form != self.form:
            raise UsageError(
                f"An example of {what} is {in_words(form)} (inputs and target); in the batches before, it is "
                f"{in_words(self.form)}."
            )
        if self.goal.kind is ObjectiveKind.CLASSES:
            self._check_classes(data.targets, len(self.goal.classes), what)
        self.state.check_densities(data.batch(slice(None))[0])
        if len(data) < self.smallest:
            try_module(self.state, what, data, len(data))
            self.smallest = len(data)
        self.n_batches += 1
        return data

    def _check_classes(self, targets: Tensor, n: int, what: str) -> None:
        wrong = targets[((targets < 0) | (targets >= n)) & (targets != IGNORED)]
        if len(wrong):
            raise UsageError(f"{what} has class {int(wrong[0])}; with {n} outputs, classes are 0 to {n - 1}.")

    def _goal(self, data: Data) -> Goal:
        """Return the goal, from the first batch."""
        goal, task = goal_for(data.targets, self.loss), self._free_name()
        if goal.kind is ObjectiveKind.CLASSES:
            # Classes are indices of outputs: which of them a task has is not known beforehand.
            outputs = try_module(self.state, "batch 0", data)
            goal = Goal(ObjectiveKind.CLASSES, tuple(range(outputs.shape[-1] if isinstance(outputs, Tensor) else 0)))
        check_fit(self.state, task, CheckedData(data, goal), len(data))
        return goal

    def _know_again(self, data: Data, goal: Goal) -> None:
        """Load the loss levels of tasks of earlier streams that have the same goal."""
        if not goal.kind.higher_is_better:
            inputs, targets = data.batch(slice(None))
            self.floor = FLOOR * abs(float(goal.loss(self.state.learner.start(inputs, training=False), targets)))
        for task in self.state.tasks:
            if task.losses and (task.goal.kind, task.goal.classes) == (goal.kind, goal.classes):
                self.levels[task.name] = Level(self.floor, deque(task.losses, LATELY))

    # Detecting the task

    def _take(self, batch: Any) -> None:
        data = self._check_batch(batch)
        if self.present is not None:
            loss = self._loss(data, self.present)
            if not self.levels[self.present].is_surprised(loss):
                self._settle()
                self._learn([data], loss)
                return
        self.waiting.append(data)
        if len(self.waiting) >= self.patience or not self.levels:
            self._switch()

    def _settle(self) -> None:
        """Learn from surprising batches that were not followed by more of them: they were chance."""
        if not self.waiting:
            return
        if self.present is None:
            self._switch()
        waiting, self.waiting = self.waiting, []
        self._learn(waiting)

    def _switch(self) -> None:
        """Infer the task of the waiting batches, and continue with it."""
        waiting, self.waiting = self.waiting, []
        losses = {name: [self._loss(data, name) for data in waiting] for name in self.levels if name != self.present}
        fitting = [name for name in losses if self.levels[name].explains(losses[name])]
        best = min(fitting, key=lambda name: sum(losses[name]), default=None)
        interrupts.uninterrupted(self._close)

        def work() -> None:
            self._open(best, waiting)
            self._learn(waiting)

        def undo() -> None:
            self.present = None  # the task was opened in vain, and is as it was before

        self.state.all_or_nothing(work, undo)

    def _loss(self, data: Data, name: str) -> float:
        """Return the loss of a task's network on a batch."""
        assert self.goal is not None
        learner = self.state.learner
        index = learner.n_tasks - 1 if name == self.present else self.state.index_of(name)
        inputs, targets = data.batch(slice(None))
        return float(self.goal.loss(learner.outputs(inputs, index), targets))

    # The present task

    def _open(self, known: str | None, waiting: Sequence[Data]) -> None:
        """Continue with a known task, or begin a new one."""
        state = self.state
        self._serial, self.n_steps, self.n_examples = state.n_learned, 0, 0
        state.seed(self._serial, 0)
        name = self._free_name() if known is None else known
        if known is None:
            state.make_densities(_join_batches(waiting).batch(slice(None))[0])
            state.learner.begin_task(len(state.tasks))
            self.levels[name] = Level(self.floor)
        else:
            self.n_examples = state.about(known).n_examples
            begin_again(state, known)
        self.switches.append(Switch(self.n_batches - len(waiting), name, known is None))
        self.present = name

    def _free_name(self) -> str:
        number = 1
        while f"{self.name} {number}" in self.state.names:
            number += 1
        return f"{self.name} {number}"

    def _learn(self, batches: Sequence[Data], loss: float | None = None) -> None:
        """Take some steps on each batch and on recent ones; if that fails, none is learned.

        `loss` is that of the present task on a batch that was no surprise, to be noted.
        """
        assert self.goal is not None
        assert self.present is not None
        goal, level, mend = self.goal, self.levels[self.present], self.state.mender()
        kept, recent, losses = self.state.learner.kept(), list(self.recent), list(level.losses)
        numbers = self.n_steps, self.n_examples

        def work() -> None:
            self.recent.extend(batches)
            for data in batches:
                self._take_steps(data, goal)
            self.n_examples += sum(len(data) for data in batches)
            level.losses.extend([] if loss is None else [loss])

        def undo() -> None:
            mend()
            self.state.learner.put_back(kept)
            self.recent, level.losses = deque(recent, self.recent.maxlen), deque(losses, LATELY)
            self.n_steps, self.n_examples = numbers

        interrupts.all_or_nothing(work, undo)

    def _take_steps(self, data: Data, goal: Goal) -> None:
        for _ in range(self.steps):
            self.n_steps += 1
            self.state.seed(self._serial, self.n_steps)
            index = int(torch.randint(len(self.recent), ()))
            # The newest batch has half of the steps: the others keep the task from following every batch.
            chosen = data if self.n_steps % 2 else self.recent[index]
            loss = float(
                self.state.learner.train_step(*chosen.batch(torch.arange(len(chosen), device=chosen.device)), goal)[
                    "task_loss"
                ]
            )
            if not math.isfinite(loss):
                raise TrainingError(f"The loss became {loss} in batch {self.n_batches - 1}: try a smaller lr.")
        if not self.state.learner.is_finite():
            raise TrainingError(f"The gradient became infinite in batch {self.n_batches - 1}: try a smaller lr.")

    def _close(self) -> None:
        """Finish the present task."""
        if self.present is None:
            return
        assert self.goal is not None
        found = CheckedData(_join_batches(self.recent), self.goal)
        losses = self.levels[self.present].losses
        finish(self.state, self.present, found, self.n_steps, self._serial, self.n_examples, losses=losses)
        self.recent.clear()
        self.present = None


def _join_batches(batches: Iterable[Data]) -> Data:
    parts = list(batches)
    inputs: Inputs = tuple(torch.cat(column) for column in zip(*(part.inputs for part in parts), strict=True))
    return Data(inputs, torch.cat([part.targets for part in parts]), parts[0].floats)
