"""The accuracy matrix and what follows from it, each metric named after its source.

R[i, j] is the accuracy on task j after task i was learned; b[j] that of the untrained network. Where a
value is missing the metric is NaN and says why.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

METRICS = ("final", "during", "bwt_gem", "fwt_gem", "forgetting_chaudhry", "forgetting_avalanche")


class Metric(NamedTuple):
    """A number, or NaN and the reason why there is none."""

    value: float
    reason: str = ""


@dataclass(frozen=True)
class AccuracyMatrix:
    """The accuracy matrix: a row per task learned so far, a column per task; NaN where nothing was measured.

    Example:
        >>> matrix = mnemon.AccuracyMatrix([[98.0, 50.0], [90.0, 96.0]], n_tasks=2)
        >>> matrix.final.value, matrix.during.value, matrix.bwt_gem.value
        (93.0, 97.0, -8.0)
        >>> matrix.fwt_gem
        Metric(value=nan, reason='the untrained network was not tested')
    """

    rows: Sequence[Sequence[float]]
    untrained: Sequence[float] = ()
    n_tasks: int = 0
    of_errors: bool = False
    """Whether the values are errors, the lower the better; transfer and forgetting are defined for accuracies."""

    @property
    def values(self) -> np.ndarray:
        """R as a square array [n_tasks, n_tasks]."""
        values = np.full((self.n_tasks, self.n_tasks), np.nan)
        if self.rows:
            values[: len(self.rows)] = np.array(self.rows, dtype=float)
        return values

    @property
    def final(self) -> Metric:
        """Mean over tasks after the last task."""
        return self._mean(self.values[-1:].ravel(), "the last task was not learned or not every task tested after it")

    @property
    def during(self) -> Metric:
        """Mean over tasks, each right after it was learned."""
        return self._mean(np.diagonal(self.values), "not every task was learned")

    @property
    def bwt_gem(self) -> Metric:
        """Backward transfer (Lopez-Paz & Ranzato, 2017): final minus during, without the last task."""
        if reason := self._no_comparison():
            return Metric(math.nan, reason)
        r = self.values
        return self._mean((r[-1] - np.diagonal(r))[:-1], "not every task was tested after it and after the last one")

    @property
    def fwt_gem(self) -> Metric:
        """Forward transfer (Lopez-Paz & Ranzato, 2017): just before a task is learned, above untrained."""
        if reason := self._no_comparison():
            return Metric(math.nan, reason)
        if len(self.untrained) != self.n_tasks:
            return Metric(math.nan, "the untrained network was not tested")
        gain = np.diagonal(self.values, offset=1) - np.array(self.untrained, dtype=float)[1:]
        return self._mean(gain, "the learner has no answer for a task before it is begun")

    @property
    def forgetting_chaudhry(self) -> Metric:
        """Forgetting (Chaudhry et al., 2018): best accuracy before the last task minus the final one."""
        if reason := self._no_comparison():
            return Metric(math.nan, reason)
        r = self.values
        if any(np.isnan(r[j:-1, j]).any() for j in range(self.n_tasks - 1)):
            return Metric(math.nan, "not every row of R was measured")
        best = np.array([np.nanmax(r[:-1, j]) for j in range(self.n_tasks - 1)])
        return self._mean(best - r[-1, :-1], "the last row of R was not measured")

    @property
    def forgetting_avalanche(self) -> Metric:
        """Forgetting (Avalanche): right after learning minus final, without the last task."""
        value, reason = self.bwt_gem
        return Metric(-value, reason)

    @property
    def metrics(self) -> dict[str, Metric]:
        """All metrics by name."""
        return {name: getattr(self, name) for name in METRICS}

    def _no_comparison(self) -> str:
        if self.of_errors:
            return "it is defined for accuracies, not for errors"
        return "it needs two tasks" if self.n_tasks < 2 else ""

    def _mean(self, values: np.ndarray, reason: str) -> Metric:
        if values.size == 0 or np.isnan(values).any():
            return Metric(math.nan, reason)
        return Metric(float(values.mean()))


def mean_and_sem(values: Sequence[float]) -> tuple[float, float]:
    """Return mean and standard error of the mean; the error of a single value is NaN."""
    array = np.array(values, dtype=float)
    sem = float(array.std(ddof=1) / math.sqrt(len(array))) if len(array) > 1 else math.nan
    return float(array.mean()), sem
