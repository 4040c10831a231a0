"""What a measured number says of a published one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published
from mnemon.results.verdict import WIDTH, Judgement

WITHIN, NOT_COMPARABLE = Judgement.WITHIN.value, Judgement.NOT_COMPARABLE.value
SHORT, BETTER = f"{Judgement.SHORT.value} by", "better by"
NOT_RUN, NO_NUMBER, WAITING = "not run", "no number published", "waiting for"


@dataclass(frozen=True)
class Line:
    """A cell, one of its metrics, and what came out."""

    recipe: str
    row: str
    column: str
    metric: str
    budget: str
    published: Published | None
    values: tuple[float, ...]
    """What was measured, a number per seed."""
    seeds: tuple[int, ...]
    digits: int
    verdict: str
    detail: str = ""
    """The settings in which a run that cannot be compared differs from the paper's: here and there."""
    x: float | None = None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean_and_sem(self.values)[0] if self.values else math.nan

    @property
    def sem(self) -> float:
        """Its standard error; NaN of a single seed."""
        return mean_and_sem(self.values)[1] if self.values else math.nan

    @property
    def difference(self) -> float:
        """Measured minus published."""
        return self.mean - self.published.mean if self.published else math.nan


def judge(
    published: Published | None,
    published_seeds: int,
    values: Sequence[float],
    digits: int = 2,
    lower_is_better: bool = False,
) -> str:
    """Say whether measured values agree with what was published, or by how much they miss or surpass it.

    Chance is two standard errors of the difference. A single seed has none of its own: it is judged by the published
    spread of single seeds, where there is one.
    """
    if not values:
        return NOT_RUN
    if published is None:
        return NO_NUMBER
    mean, sem = mean_and_sem(values)
    gain = round(mean, digits) - published.mean
    if lower_is_better:
        gain = -gain
    amount = f"{abs(gain):.{digits}f}"
    own = sem if len(values) > 1 else published.sem * math.sqrt(published_seeds)
    if math.isnan(own):
        return f"{BETTER if gain >= 0 else SHORT} {amount} (spread not known)"
    if abs(gain) <= WIDTH * math.hypot(own, 0.0 if math.isnan(published.sem) else published.sem):
        return WITHIN
    return f"{BETTER if gain > 0 else SHORT} {amount}"
