"""Learn from a stream of batches that nobody has cut into tasks.

Every batch is first judged, then learned. As long as the present task's network does about as well as lately, the
batch is more of the same. When it does much worse on several batches in a row, something has changed: if the network
of an earlier task does as well as it used to, the stream has come back to that task; otherwise a new one is opened.
"""

from __future__ import annotations

import math
import statistics
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from mnemon.continual.data import Data, Inputs, collect
from mnemon.continual.kinds import Goal, Kind, Loss, goal_for
from mnemon.continual.model import ContinualModel
from mnemon.errors import TrainingError, UsageError

LATELY = 8
"""Batches over which the level of a task's loss is taken."""
LEAST = 3
"""Batches that a task has to have before a change can be noticed."""
FLOOR = 0.2
"""Losses differ by chance at least by so much."""


@dataclass(frozen=True)
class Switch:
    """A change in the stream that was noticed."""

    batch: int
    """Number of the first batch after the change."""
    task: str
    """The task that the stream went on with."""
    new: bool
    """Whether that task was opened then; otherwise the stream has come back to it."""


@dataclass
class Level:
    """How high a task's loss has been lately, on batches that it had not yet learned from."""

    losses: deque[float] = field(default_factory=lambda: deque(maxlen=LATELY))

    def add(self, loss: float) -> None:
        """Take note of the loss on a batch."""
        self.losses.append(loss)

    def bound(self, strictness: float) -> float:
        """Return the highest loss that may still be chance; the stricter, the lower.

        By medians: right after a change the losses of a task fall quickly, and one batch may be an odd one.
        """
        middle = statistics.median(self.losses)
        spread = 1.48 * statistics.median(abs(loss - middle) for loss in self.losses)
        return middle + max(FLOOR, 0.5 * middle, 4 * spread) / strictness

    def is_surprised(self, loss: float) -> bool:
        """Tell whether a loss is too high to be chance."""
        return len(self.losses) >= LEAST and loss > self.bound(1)

    def explains(self, losses: Sequence[float]) -> bool:
        """Tell whether losses are about what they used to be."""
        return len(self.losses) >= LEAST and statistics.fmean(losses) <= self.bound(2)


class StreamLearner:
    """Learns batch after batch, and opens and changes tasks by itself."""

    def __init__(self, model: ContinualModel, name: str, steps: int, recent: int, patience: int, loss: str | Loss):
        for what, value in (("steps", steps), ("recent", recent), ("patience", patience)):
            if value < 1:
                raise UsageError(f"{what} must be at least 1, not {value}.")
        self.model, self.name, self.steps, self.patience, self.loss = model, name, steps, patience, loss
        self.recent: deque[Data] = deque(maxlen=recent)
        self.waiting: list[Data] = []
        """Batches that were surprising, until it is clear what they are of."""
        self.levels: dict[str, Level] = {}
        self.goal: Goal | None = None
        self.present: str | None = None
        self.switches: list[Switch] = []
        self.n_batches = self.n_steps = self.n_examples = 0

    def run(self, batches: Iterable[Any]) -> list[Switch]:
        """Learn from all batches; what was learned is kept even if the stream breaks off."""
        try:
            for batch in batches:
                self._take(self._checked(batch))
                self.n_batches += 1
            self._settle()
        finally:
            self._close()
        if not self.switches:
            raise UsageError("The stream is empty.")
        return self.switches

    def _checked(self, batch: Any) -> Data:
        data = collect(batch, f"batch {self.n_batches + 1}").to(self.model.device)
        if self.goal is None:
            self.goal = self._goal(data)
        return data

    def _goal(self, data: Data) -> Goal:
        goal = goal_for(data.targets, self.loss)
        if goal.kind is not Kind.CLASSES:
            return goal
        # Classes are places among the outputs: which of them a task has is not known beforehand.
        inputs, _ = data.batch(slice(1))
        with torch.no_grad():
            outputs = self.model._learner.memory.target.eval()(
                self.model._learner.memory.target.own_weights(),
                *inputs,
                buffers=self.model._learner.memory.target.fresh_buffers(),
            )
        return Goal(Kind.CLASSES, tuple(range(outputs.shape[-1])))

    def _take(self, data: Data) -> None:
        if self.present is None:
            self._switch_to(None, data)
        elif self.levels[self.present].is_surprised(loss := self._loss(data, self.present)):
            self.waiting.append(data)
            if len(self.waiting) >= self.patience:
                self._switch()
            return
        else:
            self._settle()
            self.levels[self.present].add(loss)
        self._learn(data)

    def _settle(self) -> None:
        """Learn from batches that were surprising, but not followed by more such: they were chance."""
        waiting, self.waiting = self.waiting, []
        for data in waiting:
            self._learn(data)

    def _switch(self) -> None:
        """Find out which task the waiting batches are of, and go on with it."""
        waiting, self.waiting = self.waiting, []
        losses = {name: [self._loss(data, name) for data in waiting] for name in self.levels if name != self.present}
        fitting = [name for name in losses if self.levels[name].explains(losses[name])]
        best = min(fitting, key=lambda name: sum(losses[name]), default=None)
        self._switch_to(best, waiting[0], self.n_batches - len(waiting) + 1)
        for data in waiting:
            self._learn(data)

    def _switch_to(self, name: str | None, data: Data, batch: int | None = None) -> None:
        self._close()
        model = self.model
        self._serial, self.n_steps, self.n_examples = model._n_learned, 0, 0
        model._seed(self._serial, 0)
        new = name is None
        if name is None:
            number = len(self.levels) + 1
            name = f"{self.name} {number}"
            model._check_new(name)
            assert self.goal is not None
            model._make_densities(data.inputs[0][0].numel())
            model._learner.begin_task(len(model._tasks))
            model._check_fit(name, data, self.goal)
            self.levels[name] = Level()
        else:
            model._begin_again(name)
        self.present = name
        self.switches.append(Switch(self.n_batches if batch is None else batch, name, new))

    def _learn(self, data: Data) -> None:
        """Take some steps on the batch and on those that came just before it."""
        assert self.goal is not None
        self.recent.append(data)
        self.n_examples += len(data)
        for _ in range(self.steps):
            self.n_steps += 1
            self.model._seed(self._serial, self.n_steps)
            index = int(torch.randint(len(self.recent), ()))
            # The newest batch has half of the steps: the others keep the task from following every batch.
            chosen = data if self.n_steps % 2 else self.recent[index]
            inputs, targets = chosen.batch(slice(None))
            terms = self.model._learner.train_step(inputs, targets, self.goal)
            if not math.isfinite(float(terms["task_loss"])):
                raise TrainingError(f"The loss became {float(terms['task_loss'])} in batch {self.n_batches + 1}.")

    def _close(self) -> None:
        """Put the present task away."""
        if self.present is None:
            return
        assert self.goal is not None
        joined = _joined(self.recent)
        self.model._finish(self.present, joined, self.goal, self.n_steps, self._serial, self.n_examples)
        self.recent.clear()
        self.present = None

    def _loss(self, data: Data, name: str) -> float:
        """Return the loss of a task's network on a batch."""
        assert self.goal is not None
        model = self.model
        place = len(model._tasks) if name == self.present else model._place(name)
        inputs, targets = data.batch(slice(None))
        return float(self.goal.loss(model._learner.outputs(inputs, place), targets))


def _joined(batches: Iterable[Data]) -> Data:
    parts = list(batches)
    inputs: Inputs = tuple(torch.cat(column) for column in zip(*(part.inputs for part in parts), strict=True))
    targets: Tensor = torch.cat([part.targets for part in parts])
    return Data(inputs, targets)
