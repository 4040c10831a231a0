"""Estimate forgetting: how far the generated network of a task has moved, and what that may cost.

Two things are stored for each task, and no data. The *sketch* is a few sums of its weights with random signs; from
their change follows the length of the weights' change. The *calibration* is the loss of score on training data after
random moves of the weights, for several lengths. Lengths are root mean squares, in standard deviations of all of the
module's own weights.
"""

from __future__ import annotations

import itertools
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from mnemon.continual.data import Data
from mnemon.continual.learned_task import LearnedTask
from mnemon.continual.objective import Goal
from mnemon.errors import ForgettingWarning
from mnemon.memory.networks import NetworkMemory

if TYPE_CHECKING:
    from mnemon.continual.state import State

SUMS = 32
"""Numbers in a sketch: enough to estimate a length to about an eighth."""
LENGTHS = (0.1, 0.3, 1.0, 3.0, 10.0)
"""Lengths of the random moves of a calibration."""
TRIALS = 3
"""Random moves of each length."""
EXAMPLES = 300
"""Training examples on which a calibration is measured."""
AS_HARMFUL = 2.0
"""A move by later tasks costs about as much as a random move this many times longer (docs/results/drift.md)."""
WARN = 2.0
"""A warning is given above this loss: points of accuracy, or hundredths of the error."""
LOOKED_AT = 32
"""Maximum number of tasks whose drift is measured after learning; `ContinualModel.drift` measures all."""


@dataclass(frozen=True)
class Drift:
    """How far a task's network has moved since it was learned, and what that may cost.

    Example:
        >>> print(mnemon.Drift("monday", moved=0.31, lost=1.2))
        monday: moved by 0.31, expected loss 1.2 points
    """

    task: str
    moved: float
    """Root mean square of the change, in standard deviations of the module's own weights; NaN for models of earlier
    versions, which kept no sketch."""
    lost: float
    """Expected loss: points of accuracy, or hundredths of the error. A rough upper bound: convolutional networks lost
    a third of it (docs/results/drift.md)."""
    unit: str = "points"
    """points (of accuracy) or % (of the error)."""

    def __str__(self) -> str:
        """Say how far it moved and what that may cost."""
        if math.isnan(self.moved):
            return f"{self.task}: not known (learned with an earlier version)"
        return f"{self.task}: moved by {self.moved:.2g}, expected loss {self.lost:.2g} {self.unit}"


# Sketch and calibration


def keep(state: State, data: Data, goal: Goal, index: int) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the sketch and the calibration of a task just learned; nothing if networks cannot move."""
    memory = state.learner.memory
    if not isinstance(memory, NetworkMemory):
        return (), ()
    sketcher = Sketcher(memory)
    return tuple(sketcher.take(index).tolist()), tuple(_calibrate(sketcher, data, goal, index))


class Sketcher:
    """Computes sketches of generated weights: each weight, with a random sign, is added to one of the sums."""

    def __init__(self, memory: NetworkMemory):
        assert memory.own is not None
        self.memory, self.n_weights = memory, len(memory.own)
        self.unit = float(memory.own.std(correction=0)) or 1.0
        """Not one for each layer: what the hypernetwork changes is about as large in all of them."""
        generator = torch.Generator().manual_seed(0)
        self._sum_of = torch.randint(SUMS, (self.n_weights,), generator=generator).to(memory.device)
        signs = torch.randint(2, (self.n_weights,), generator=generator) * 2 - 1
        self._signed = signs.to(memory.device, memory.floats) / self.unit

    @torch.no_grad()
    def take(self, index: int) -> Tensor:
        """Return the sketch of a task's weights."""
        weights = self.memory.cached_weights(index)[: self.n_weights]
        return weights.new_zeros(SUMS).index_add(0, self._sum_of, weights * self._signed).double().cpu()

    def measure_move(self, index: int, before: Sequence[float]) -> float:
        """Return the root mean square of the change of a task's weights since a sketch, in their unit."""
        change = self.take(index) - torch.tensor(before, dtype=torch.float64)
        return math.sqrt(float(change.square().sum()) / self.n_weights)


@torch.no_grad()
def _calibrate(sketcher: Sketcher, data: Data, goal: Goal, index: int) -> list[float]:
    """Return what a task loses when its weights are moved at random, for each length."""
    picked = torch.randperm(len(data))[:EXAMPLES].to(data.device)
    inputs, targets = data.batch(picked)
    memory, weights = sketcher.memory, sketcher.memory.cached_weights(index)

    def score(length: float) -> float:
        moved = weights + length * sketcher.unit * torch.randn_like(weights)
        copies = (part.clone() for part in inputs)
        return goal.score(memory.run(index, *copies, training=False, weights=moved), targets)

    reached = score(0.0)
    means = (sum(score(length) for _ in range(TRIALS)) / TRIALS for length in LENGTHS)
    losses = [_loss(reached, mean, goal) for mean in means]
    return list(itertools.accumulate(losses, max))  # a longer move does not cost less


def _loss(before: float, after: float, goal: Goal) -> float:
    """Return the loss, in points or in hundredths of the error; finite, and at least 0."""
    lost = before - after if goal.kind.higher_is_better else 100 * (after - before) / max(abs(before), 1e-12)
    return min(max(lost, 0.0), 1e6) if math.isfinite(lost) else 1e6


# The drift


def measure(state: State, indices: Sequence[int] | None = None) -> list[Drift]:
    """Return the drift of all tasks, or of some; of exact networks it is 0."""
    memory = state.learner.memory
    chosen = range(len(state.tasks)) if indices is None else indices
    if not isinstance(memory, NetworkMemory):
        return [Drift(state.tasks[i].name, 0.0, 0.0, _unit(state.tasks[i])) for i in chosen]
    sketcher = Sketcher(memory)
    return [_drift(sketcher, state.tasks[i], i) for i in chosen]


def _drift(sketcher: Sketcher, task: LearnedTask, index: int) -> Drift:
    if len(task.sketch) != SUMS or len(task.calibration) != len(LENGTHS):
        return Drift(task.name, math.nan, math.nan, _unit(task))
    moved = sketcher.measure_move(index, task.sketch)
    return Drift(task.name, moved, expected_loss(AS_HARMFUL * moved, task.calibration), _unit(task))


def expected_loss(length: float, calibration: Sequence[float]) -> float:
    """Return the loss for a random move of a length, by linear interpolation between the calibrated lengths."""
    points = [(0.0, 0.0), *zip(LENGTHS, calibration, strict=True)]
    for (a, low), (b, high) in itertools.pairwise(points):
        if length <= b:
            return low + (high - low) * (length - a) / (b - a)
    return calibration[-1]


def _unit(task: LearnedTask) -> str:
    return "points" if task.goal.kind.higher_is_better else "%"


def warn_of_loss(state: State) -> None:
    """Warn once of each earlier task that may have lost much."""
    earlier = len(state.tasks) - 1
    if earlier < 1 or not isinstance(state.learner.memory, NetworkMemory):
        return
    step = max(1, -(-earlier // LOOKED_AT))
    some = range((earlier - 1) % step, earlier, step)  # of many tasks others each time
    lost = [drift for drift in measure(state, some) if drift.lost > WARN and drift.task not in state.warned]
    state.warned |= {drift.task for drift in lost}
    if lost:
        worst = max(lost, key=lambda drift: drift.lost)
        others = f", and {len(lost) - 1} more tasks" if len(lost) > 1 else ""
        warnings.warn(
            f"Task '{worst.task}' may have lost up to {worst.lost:.0f} {worst.unit}{others}: see model.drift(). "
            "Use a higher beta or compression, or memory='exact', which loses nothing.",
            ForgettingWarning,
            stacklevel=2,
        )
