"""What a measured number says of a published one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published

ERRORS = 2.0
"""Standard errors of a difference that count as chance."""
ROUNDING = 0.5
"""Of the last published digit."""
WITHIN, SHORT, BETTER = "within the spread", "short of it by", "better by"
NOT_RUN, NO_NUMBER, NOT_COMPARABLE, WAITING = "not run", "no number published", "not comparable", "waiting for"


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

    Chance is two standard errors of the difference. That of the measured mean comes from its seeds or, where that is
    larger, from the published spread, as it must for a single seed.
    """
    if not values:
        return NOT_RUN
    if published is None:
        return NO_NUMBER
    mean, sem = mean_and_sem(values)
    of_one = published.sem * math.sqrt(published_seeds)
    own = [error for error in (sem, of_one / math.sqrt(len(values))) if not math.isnan(error)]
    gain = (published.mean - mean) if lower_is_better else (mean - published.mean)
    amount = f"{abs(gain):.{digits}f}"
    if not own:
        return f"{BETTER if gain >= 0 else SHORT} {amount} (spread not known)"
    theirs = 0.0 if math.isnan(published.sem) else published.sem
    chance = ERRORS * math.hypot(theirs, max(own)) + ROUNDING * 10.0**-digits
    if abs(gain) <= chance:
        return WITHIN
    return f"{BETTER if gain > 0 else SHORT} {amount}"
