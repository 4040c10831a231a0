"""Choose the step sizes of a lattice: coarse during the last part of learning, then finer if accuracy suffers."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator

import numpy as np
from numpy.typing import NDArray

from mnemon.memory.code import LARGEST, Numbers
from mnemon.memory.lattice import Layout, nearest_step

ROUNDED_FROM = 0.7
"""Share of a task's steps after which its weights are rounded."""
COARSENESS = 0.75
"""Step size relative to how far the weights of a tensor have moved (root mean square)."""
OCTAVE = 4
"""Difference of step indices that halves the step size."""
HALVINGS = 6
"""How often step sizes are halved before the finest one is used."""
DIGITS = 16
"""Binary digits of the numbers with the finest step size."""
START_PARTS = 64
"""Step sizes per root mean square of a tensor of the starting weights: its numbers take about a byte each."""
COUNTED = 2000
"""Training examples on which a loss of accuracy is measured."""

Values = NDArray[np.float64]


def rate(progress: float) -> float:
    """Return the factor of the learning rate after this share of the steps: 1 for half of them, then a cosine."""
    return 0.5 * (1 + math.cos(math.pi * max(0.0, 2 * progress - 1)))


def while_learning(moved: Values, from_own: Values, layout: Layout) -> Numbers:
    """Return the steps for learning, from how far the weights moved from their start and from the original module."""
    return _steps(COARSENESS, moved, from_own, layout)


def of_start(own: Values, layout: Layout) -> Numbers:
    """Return the steps for rounding the starting weights: a small part of their spread."""
    parts = np.split(own, np.cumsum(layout.sizes)[:-1])
    return np.array([nearest_step(_spread(part) / START_PARTS) for part in parts], dtype=np.int64)


def _spread(part: Values) -> float:
    return math.sqrt(float(np.mean(part**2))) if part.any() else float(START_PARTS)


def finer(steps: Numbers | None, moved: Values, from_own: Values, layout: Layout) -> Iterator[Numbers]:
    """Yield finer and finer steps, beginning with these; the finest ones come last."""
    first = while_learning(moved, from_own, layout) - OCTAVE if steps is None else steps
    finest = _steps(0.0, moved, from_own, layout)
    for halvings in range(HALVINGS + 1):
        yield np.maximum(first - OCTAVE * halvings, finest)
    yield finest


def usual_tolerance(n: int, higher_is_better: bool) -> float:
    """Return the default tolerance: 0.2 points of accuracy, or one of n examples; 1 % of an error."""
    return max(0.2, 100 / n) if higher_is_better else 0.01


def loses(rounded: float, plain: float, tolerance: float, higher_is_better: bool) -> bool:
    """Tell whether rounding cost more than is tolerated: points of accuracy, or a share of an error."""
    slack = 1e-9  # a difference of exactly one example is allowed
    if higher_is_better:
        return rounded < plain - tolerance - slack
    return not rounded <= plain + abs(plain) * tolerance


def settle(
    ask: Callable[[], float],
    round_by: Callable[[Numbers | None], None],
    tried: Iterator[Numbers],
    loses_too_much: Callable[[float, float], bool],
) -> bool:
    """Round by the coarsest steps within the tolerance; return False if only the finest steps are left."""
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
    """Return steps in proportion to how far each tensor has moved; not finer than 16 binary digits."""
    ends = np.cumsum(layout.sizes)[:-1]
    found = []
    for part, whole in zip(np.split(moved, ends), np.split(from_own, ends), strict=True):
        least = float(np.abs(whole).max(initial=0.0)) / min(2.0 ** (DIGITS - 1), LARGEST / 4)
        far = coarseness * math.sqrt(float(np.mean(part**2))) if len(part) else 0.0
        size = max(far, least)
        found.append(nearest_step(size) if size > 0 else 0)
    return np.array(found, dtype=np.int64)
