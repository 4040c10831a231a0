"""How fine a lattice has to be: coarse while a task learns to live with it, finer where that cost too much."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mnemon.memory.code import LARGEST, Numbers
from mnemon.memory.lattice import Layout, nearest_step

ROUNDED_FROM = 0.7
"""Share of a task's steps after which its weights go through the rounding."""
COARSENESS = 0.75
"""A step beside how far the weights of a tensor have moved (root mean square); later steps make up for it."""
OCTAVE = 4
"""Indices of steps in which they halve."""
HALVINGS = 6
"""How often steps are halved before the fall-back is taken."""
DIGITS = 16
"""Binary digits of the numbers that are fallen back to."""
START_PARTS = 64
"""Steps in the root mean square of a tensor that tasks start from: its numbers fill about a byte each."""
COUNTED = 2000
"""Training examples on which a loss of accuracy is measured."""

Values = NDArray[np.float64]


def rate(progress: float) -> float:
    """Return the share of the learning rate after such a share of the steps: all for half of them, then a cosine."""
    return 0.5 * (1 + math.cos(math.pi * max(0.0, 2 * progress - 1)))


def while_learning(moved: Values, from_own: Values, layout: Layout) -> Numbers:
    """Return the steps to learn with, from how far weights are from where they started, and from the module's own."""
    return _steps(COARSENESS, moved, from_own, layout)


def of_start(own: Values, layout: Layout) -> Numbers:
    """Return the steps by which the weights to start from are rounded: a small part of what they differ by."""
    parts = np.split(own, np.cumsum(layout.sizes)[:-1])
    return np.array([nearest_step(_spread(part) / START_PARTS) for part in parts], dtype=np.int64)


def _spread(part: Values) -> float:
    return math.sqrt(float(np.mean(part**2))) if part.any() else float(START_PARTS)


def finer(steps: Numbers | None, moved: Values, from_own: Values, layout: Layout) -> Iterator[Numbers]:
    """Yield ever finer steps, beginning with these; the last ones are those of the fall-back."""
    first = while_learning(moved, from_own, layout) - OCTAVE if steps is None else steps
    finest = _steps(0.0, moved, from_own, layout)
    for halvings in range(HALVINGS + 1):
        yield np.maximum(first - OCTAVE * halvings, finest)
    yield finest


def usual_tolerance(n: int, higher_is_better: bool) -> float:
    """Return what is tolerated if nothing is said: 0.2 points of accuracy, or one of n examples; 1 % of an error."""
    return max(0.2, 100 / n) if higher_is_better else 0.01


def loses(rounded: float, plain: float, tolerance: float, higher_is_better: bool) -> bool:
    """Tell whether rounding cost more than is tolerated: points of accuracy, or a share of an error."""
    slack = 1e-9  # a difference of exactly one example is none of more
    if higher_is_better:
        return rounded < plain - tolerance - slack
    return not rounded <= plain + abs(plain) * tolerance


def settle(
    ask: Callable[[], float],
    round_by: Callable[[Numbers | None], None],
    tried: Iterator[Numbers],
    loses_too_much: Callable[[float, float], bool],
) -> bool:
    """Round by the coarsest steps that lose little enough; return False if none do but those of the fall-back."""
    round_by(None)
    plain = ask()
    *usual, finest = tried
    for steps in usual:
        round_by(steps)
        if not loses_too_much(ask(), plain):
            return True
    round_by(finest)
    return False


def _steps(coarseness: float, moved: Values, from_own: Values, layout: Layout) -> Numbers:
    """Return steps in proportion to how far each tensor has moved; as few as 16 binary digits allow."""
    ends = np.cumsum(layout.sizes)[:-1]
    found = []
    for part, whole in zip(np.split(moved, ends), np.split(from_own, ends), strict=True):
        least = float(np.abs(whole).max(initial=0.0)) / min(2.0 ** (DIGITS - 1), LARGEST / 4)
        far = coarseness * math.sqrt(float(np.mean(part**2))) if len(part) else 0.0
        size = max(far, least)
        found.append(nearest_step(size) if size > 0 else 0)
    return np.array(found, dtype=np.int64)
