"""Measured beside published: within the spread, above it, short of it, or not to be compared, and why."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum

from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published, published_for
from mnemon.results.record import RunRecord

WIDTH = 2.0
"""Standard errors, of measured and published taken together, up to which a difference is within the spread."""


class Judgement(str, Enum):
    """How a measured mean compares with a published one."""

    WITHIN = "within the spread"
    ABOVE = "above it"
    SHORT = "short of it"
    NOT_COMPARABLE = "not comparable"


@dataclass(frozen=True)
class Gap:
    """By how much a measured mean is better than a published one, and how much of that chance may make."""

    gain: float
    margin: float
    """NaN where the spread is not known."""

    @property
    def judgement(self) -> Judgement:
        """Without a spread there is no "within"."""
        if abs(self.gain) <= self.margin:
            return Judgement.WITHIN
        return Judgement.ABOVE if self.gain >= 0 else Judgement.SHORT


def gap(
    published: Published,
    values: Sequence[float],
    published_seeds: int | None = None,
    digits: int = 2,
    lower_is_better: bool = False,
) -> Gap:
    """Compare the mean over seeds, rounded to so many digits, with a published one.

    Chance is two standard errors of the difference. A single seed has none of its own: where the number of published
    seeds is known, it has the published spread of single seeds.
    """
    mean, sem = mean_and_sem(values)
    gain = round(mean, digits) - published.mean
    own = published.sem * math.sqrt(published_seeds) if len(values) == 1 and published_seeds else sem
    margin = WIDTH * math.hypot(own, 0.0 if math.isnan(published.sem) else published.sem)
    return Gap(-gain if lower_is_better else gain, margin)


@dataclass(frozen=True)
class Background:
    """What is known of a published number beside its text."""

    seeds: int | None = None
    """Over how many it was averaged."""
    caveat: str = ""
    """Why the preset that it is named in cannot be compared with it."""


UNKNOWN = Background()


@dataclass(frozen=True)
class Verdict:
    """A measured mean over tasks after the last, its spread over seeds, and what it is beside the published one."""

    judgement: Judgement
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
    published = published_for(first)

    def verdict(judgement: Judgement, reason: str) -> Verdict:
        return Verdict(judgement, reason, mean, sem, len(finals), published)

    if reason := _not_comparable(records, published, len(finals), background):
        return verdict(Judgement.NOT_COMPARABLE, reason)
    assert published is not None
    digits = first.digits
    found = gap(published, finals, background.seeds, digits, first.accuracy.of_errors)
    chance = "the spread is not known"
    if not math.isnan(found.margin):
        of = " as published for single seeds" if len(finals) == 1 else ""
        chance = f"{WIDTH:g} standard errors{of} are {found.margin:.{digits}f}"
    return verdict(found.judgement, f"the difference is {abs(found.gain):.{digits}f}, {chance}")


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
    if background.caveat:
        return background.caveat
    return "one seed has no spread; run more with --seeds" if n == 1 and background.seeds is None else ""
