"""What a measured number says of a published one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published
from mnemon.results.verdict import Judgement, gap

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
    """Say whether measured values agree with what was published, or by how much they miss or surpass it."""
    if not values:
        return NOT_RUN
    if published is None:
        return NO_NUMBER
    found = gap(published, values, published_seeds, digits, lower_is_better)
    if found.judgement is Judgement.WITHIN:
        return WITHIN
    unknown = " (spread not known)" if math.isnan(found.margin) else ""
    return f"{BETTER if found.judgement is Judgement.ABOVE else SHORT} {abs(found.gain):.{digits}f}{unknown}"
