"""Measured beside published: above, below, shown to be close, undecided, or not to be compared, and why.

d = measured - published. Two questions are asked of it (see intervals.py for the half widths h):

    Is there a difference?   |d| > h(95 %)                 Student's test, two-sided at 5 %
    Is it a small one?       |d| + h(90 %) <= margin       two one-sided tests at 5 % (Schuirmann, 1987)

Where neither can be answered with yes, the verdict is open, and says how many seeds would settle it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from mnemon.results.intervals import Estimate, half_width
from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published, find_published, read
from mnemon.results.record import RunRecord

DIFFERENT, CLOSE = 0.95, 0.90
"""Levels of the intervals; the lower one makes two one-sided tests at 5 %."""
POINTS = 0.5
"""Percentage points that are always a small difference."""
DEVIATIONS = 2.0
"""Published deviations of single seeds that are a small difference, too."""
MOST_SEEDS = 1000
"""Seeds up to which it is worth saying how many are needed."""
MARGIN = (
    f"The margin is {POINTS:g} points or {DEVIATIONS:g} published standard deviations of single seeds, "
    "whichever is larger"
)


class Judgement(str, Enum):
    """How a measured mean compares with a published one."""

    WITHIN = "within the margin"
    ABOVE = "above published"
    BELOW = "below published"
    UNDECIDED = "undecided"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class PublishedComparison:
    """A measured mean beside a published one."""

    published: Published
    measured: Estimate
    reference: Estimate
    """The published mean as an estimate."""
    margin: float
    """Up to which a difference is small; NaN where that is not known."""
    digits: int = 2

    @property
    def difference(self) -> float:
        """Measured minus published."""
        return self.measured.mean - self.reference.mean

    @property
    def close(self) -> bool:
        """Whether the difference is shown to be a small one."""
        return abs(self.difference) + self._half_width(CLOSE) <= self.margin

    @property
    def judgement(self) -> Judgement:
        """A difference that is there is named, also where it is a small one."""
        if abs(self.difference) > self._half_width(DIFFERENT):
            return Judgement.ABOVE if self.difference > 0 else Judgement.BELOW
        return Judgement.WITHIN if self.close else Judgement.UNDECIDED

    @property
    def seeds_needed(self) -> float:
        """About how many seeds settle it, if mean and spread stay as they are; infinite if more than are worth it."""
        if math.isnan(self.measured.deviation) or not self._decided_with(MOST_SEEDS):
            return math.inf
        too_few, enough = 1, MOST_SEEDS
        while enough - too_few > 1:
            n = (too_few + enough) // 2
            too_few, enough = (too_few, n) if self._decided_with(n) else (n, enough)
        return enough

    @property
    def words(self) -> str:
        """The verdict in a few words."""
        small = f"within {self.margin:.{self.digits}f}".rstrip("0").rstrip(".")
        if self.judgement is Judgement.WITHIN:
            return f"{small} of published"
        if self.judgement is Judgement.UNDECIDED:
            return f"{self.judgement.value}: needs {self._needs}"
        return f"{abs(self.difference):.{self.digits}f} {self.judgement.value}" + (f", {small}" if self.close else "")

    @property
    def interval(self) -> str:
        """The interval of the difference that the verdict was read from, in words."""
        level = CLOSE if self.judgement is Judgement.WITHIN else DIFFERENT
        half = self._half_width(level)
        if math.isnan(half):
            return f"the difference is {with_sign(self.difference, self.digits)}, its interval is not known"
        ends = (with_sign(self.difference + side * half, self.digits) for side in (-1, 1))
        return f"{100 * level:.0f} % interval of the difference: {' to '.join(ends)}"

    def _half_width(self, level: float) -> float:
        return half_width(self.measured, self.reference, level)

    def _decided_with(self, n: int) -> bool:
        return replace(self, measured=self.measured.with_seeds(n)).judgement is not Judgement.UNDECIDED

    @property
    def _needs(self) -> str:
        """What would settle it."""
        if math.isnan(self.measured.deviation):
            return "more than one seed"
        if not self._decided_with(10**12):
            return "a published spread" if math.isnan(self.margin) else "a published number with less spread"
        needed = self.seeds_needed
        return f"more than {MOST_SEEDS:,} seeds" if math.isinf(needed) else f"about {needed:,} seeds"


def with_sign(number: float, digits: int) -> str:
    """Show a difference; nothing where there is none."""
    return "" if math.isnan(number) else f"{round(number, digits) + 0.0:+.{digits}f}"


def compare(
    published: Published,
    values: Sequence[float],
    published_seeds: int | None = None,
    digits: int = 2,
    of_errors: bool = False,
) -> PublishedComparison:
    """Compare the values of all seeds with a published mean.

    A single seed tells no spread of its own: where the number of published seeds is known, it has that of single
    published seeds. A published standard error was rounded to so many digits, and may be half a digit larger.
    """
    rounding = 0.5 * 10**-digits
    known = published_seeds is not None and published_seeds > 1 and not math.isnan(published.sem)
    m = published_seeds if known and published_seeds else 1
    sem = rounding if math.isnan(published.sem) else published.sem + rounding
    reference = Estimate(published.mean, sem * math.sqrt(m), m, m - 1 if known else math.inf)
    measured = Estimate.of(values)
    if len(values) == 1 and known:
        measured = Estimate(measured.mean, reference.deviation, 1, reference.freedom)
    widest = DEVIATIONS * published.sem * math.sqrt(m) if known else math.nan
    margin = widest if of_errors else max(POINTS, widest) if known else POINTS
    return PublishedComparison(published, measured, reference, margin, digits)


@dataclass(frozen=True)
class Other:
    """A further number that was published for the same settings."""

    text: str
    seeds: int | None
    where: str
    """The recipe that has it."""


@dataclass(frozen=True)
class Background:
    """What is known of a published number beside its text."""

    seeds: int | None = None
    """Over how many it was averaged."""
    caveat: str = ""
    """Why the preset that it is named in cannot be compared with it."""
    others: tuple[Other, ...] = ()
    """What else was published for the same settings."""


UNKNOWN = Background()


@dataclass(frozen=True)
class Verdict:
    """A measured mean over tasks after the last, its spread over seeds, and what it is beside the published one."""

    judgement: Judgement
    words: str
    reason: str
    mean: float
    sem: float
    n: int
    published: Published | None = None

    @property
    def difference(self) -> float:
        """Measured minus published; NaN where nothing was published as a number."""
        return self.mean - self.published.mean if self.published else math.nan


def judge(records: Sequence[RunRecord], background: Background = UNKNOWN) -> Verdict:
    """Compare the finished seeds of one experiment with what was published for it."""
    first = records[0]
    finals = [record.accuracy.final.value for record in records if record.finished]
    mean, sem = mean_and_sem(finals) if finals else (math.nan, math.nan)
    published = find_published(first)
    if reason := _not_comparable(records, published, len(finals), background):
        judgement = Judgement.NOT_COMPARABLE
        return Verdict(judgement, judgement.value, reason, mean, sem, len(finals), published)
    assert published is not None
    found = compare(published, finals, background.seeds, first.digits, first.accuracy.of_errors)
    reason = "; ".join([found.interval, *_beside_others(finals, first, background)])
    return Verdict(found.judgement, found.words, reason, mean, sem, len(finals), published)


def _beside_others(finals: Sequence[float], first: RunRecord, background: Background) -> list[str]:
    found = []
    for other in background.others:
        if number := read(other.text):
            words = compare(number, finals, other.seeds, first.digits, first.accuracy.of_errors).words
            found.append(f"the {other.text} of {other.where}: {words}")
    return found


def _not_comparable(records: Sequence[RunRecord], published: Published | None, n: int, background: Background) -> str:
    first = records[0]
    if not first.published:
        return "nothing was published for these settings"
    if published is None:
        return f"what was published is not one mean {'squared error' if first.accuracy.of_errors else 'accuracy'}"
    if first.config.get("training", {}).get("held_out", 0.0):
        return "tested on held-out training data"
    if n == 0:
        return "no run is finished"
    return background.caveat
