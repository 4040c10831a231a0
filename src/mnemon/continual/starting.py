"""Choose where a task starts: from the user's module, or from the network of a known task if that is clearly better.

The candidate is the known task whose outputs predict the new targets best (ridge regression on some examples). Then
both starts learn a few steps from the same new batches, and their losses are compared. Tasks with few examples start
from the module.
"""

from __future__ import annotations

import functools
import math
import statistics
from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from mnemon.continual.data import Data
from mnemon.continual.objective import IGNORED, Goal, ObjectiveKind
from mnemon.continual.state import State
from mnemon.memory.exact import ExactMemory

SHARE = 0.05
"""Share of a task's steps for which each start is tried."""
LEAST, MOST = 12, 100
"""Minimum and maximum steps of a trial; with fewer than the minimum, there is no trial."""
CANDIDATES = 8
"""Number of known tasks that are considered: the latest ones."""
PROBED = 512
"""Examples on which they are compared."""
SURE = 2.0
"""Standard errors by which the losses of the known start must be lower."""

Batch = Callable[[int], tuple[tuple[Tensor, ...], Tensor]]
"""The batch of a step."""


def choose_start(state: State, data: Data, goal: Goal, batch: Batch, steps: int, batch_size: int) -> None:
    """Let the present task start where it learns best (exact memory only)."""
    memory, n_tries = state.learner.memory, min(MOST, int(SHARE * steps), len(data) // batch_size)
    if not isinstance(memory, ExactMemory) or not state.tasks or n_tries < LEAST:
        return
    known = _best_known(state, data, goal)
    if known is None:
        return
    losses = [_losses_from(state, memory, origin, goal, batch, n_tries) for origin in (known, -1)]
    memory.start_from(known if _clearly_lower(*losses) else -1)


def _losses_from(
    state: State, memory: ExactMemory, origin: int, goal: Goal, batch: Batch, n_tries: int
) -> list[float]:
    """Return the losses on new batches in the second half of some steps from a start."""
    memory.start_from(origin)

    def step(number: int) -> float:
        inputs, targets = batch(number)
        loss = goal.loss(memory.run(memory.n_tasks - 1, *inputs, training=True), targets)
        memory.advance(0.0)
        memory.descend(loss)
        return float(loss.detach())

    moments = [(number + 1, functools.partial(step, number)) for number in range(n_tries)]
    with torch.enable_grad():
        losses = [state.at_moment(state.n_learned, moment, work) for moment, work in moments]
    return losses[n_tries // 2 :]


def _clearly_lower(ones: Sequence[float], others: Sequence[float]) -> bool:
    differences = [other - one for one, other in zip(ones, others, strict=True)]
    mean = statistics.fmean(differences)
    return math.isfinite(mean) and mean > SURE * statistics.stdev(differences) / math.sqrt(len(differences))


def _best_known(state: State, data: Data, goal: Goal) -> int | None:
    """Return the known task whose outputs predict the targets best; None if there is none of the same kind."""
    kinds = [index for index, task in enumerate(state.tasks) if task.goal.kind is goal.kind]
    if goal.kind is ObjectiveKind.OWN or len(kinds) < 2:
        return kinds[-1] if kinds else None
    inputs, targets = data.batch(slice(PROBED))
    wanted = _as_numbers(goal, targets)
    errors = {index: _unexplained(state.learner.outputs(inputs, index), wanted) for index in kinds[-CANDIDATES:]}
    return min(errors, key=lambda index: errors[index])


def _as_numbers(goal: Goal, targets: Tensor) -> Tensor:
    """Return targets as rows of numbers."""
    if goal.kind is ObjectiveKind.CLASSES:
        counts = (targets.flatten() != IGNORED).unsqueeze(1)
        return F.one_hot(targets.flatten().clamp_min(0), len(goal.classes)).double() * counts
    return targets.reshape(-1, targets.shape[-1] if targets.ndim > 1 else 1).double()


@torch.no_grad()
def _unexplained(outputs: Tensor, wanted: Tensor) -> float:
    """Return the squared error of a ridge regression on one half of the examples, for the other half."""
    rows = outputs.double().reshape(len(wanted), -1)
    rows = torch.cat([rows, torch.ones_like(rows[:, :1])], 1)
    half = len(rows) // 2
    (a, b), (y, z) = (rows[:half], rows[half:]), (wanted[:half], wanted[half:])
    gram = a.T @ a
    gram.diagonal().add_(1e-3 * gram.diagonal().mean().clamp_min(1e-12))
    found = float((b @ torch.linalg.solve(gram, a.T @ y) - z).square().sum())
    return found if math.isfinite(found) else math.inf
