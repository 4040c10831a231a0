"""How far chance may move a mean over seeds, and the difference of two means.

The interval of a mean is Student's. Its half width is h = t s / sqrt(n): s is the deviation of single seeds, n their
number, t the quantile of Student's distribution for the degrees of freedom of s. The interval of a difference of two
independent means has

    h = sqrt(h_1² + h_2²)

(Zou & Donner, 2008, "Construction of confidence limits about effect measures"). It is Student's own interval where
one of the means is known exactly. Unlike Welch's it never becomes wider when seeds are added.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from mnemon.results.metrics import mean_and_sem


@dataclass(frozen=True)
class Estimate:
    """A mean over seeds, and what is known of the spread of single seeds."""

    mean: float
    deviation: float
    """Standard deviation of single seeds; NaN where it is not known."""
    n: int = 1
    freedom: float = math.inf
    """Degrees of freedom of the deviation; infinite where it is taken as exact."""

    @classmethod
    def of(cls, values: Sequence[float]) -> Estimate:
        """Return the estimate from a value for each seed; a single one tells no deviation."""
        mean, sem = mean_and_sem(values)
        return cls(mean, sem * math.sqrt(len(values)), len(values), len(values) - 1)

    def half_width(self, level: float) -> float:
        """Return half the width of the interval that covers the true mean in this share of all cases."""
        return 0.0 if self.deviation == 0 else student(level, self.freedom) * self.deviation / math.sqrt(self.n)

    def with_seeds(self, n: int) -> Estimate:
        """Return what it would be with another number of seeds that spread as much."""
        return replace(self, n=n, freedom=n - 1)


def student(level: float, freedom: float) -> float:
    """Return the quantile of Student's distribution that a two-sided interval of this level takes."""
    from scipy.special import ndtri, stdtrit  # here: a tenth of a second, which few commands need

    share = (1 + level) / 2
    return float(ndtri(share) if math.isinf(freedom) else stdtrit(freedom, share))


def half_width(first: Estimate, second: Estimate, level: float) -> float:
    """Return half the width of the interval of the difference of two means."""
    return math.hypot(first.half_width(level), second.half_width(level))
