"""What a measured number says of a published one."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published
from mnemon.results.verdict import Judgement, PublishedComparison, compare

NOT_RUN, NO_NUMBER, WAITING = "not run", "no number published", "waiting for a preset"


@dataclass(frozen=True)
class MeasuredCell:
    """A cell, one of its metrics, and what came out."""

    recipe: str
    row: str
    column: str
    metric: str
    budget: str
    numbers: tuple[tuple[Published, int | None], ...]
    """What was published, each number with its number of seeds: the cell's own first, then other tables'."""
    values: tuple[float, ...]
    """What was measured, a number per seed."""
    seeds: tuple[int, ...]
    digits: int = 2
    of_errors: bool = False
    obstacle: str = ""
    """Why it is not compared with what was published."""
    detail: str = ""
    """The settings in which a run that cannot be compared differs from the paper's: here and there."""
    waits_for: str = ""
    """The preset that does not exist yet."""
    x: float | None = None
    key: str = ""
    """What its runs are found by: cells with the same key are the same runs."""

    @property
    def name(self) -> str:
        """What it is called in tables."""
        metric = "" if self.metric == "final" else self.metric
        return " ".join(part for part in (self.row, self.column, metric) if part)

    @property
    def published(self) -> Published | None:
        """The cell's own published number."""
        return self.numbers[0][0] if self.numbers else None

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean_and_sem(self.values)[0] if self.values else math.nan

    @property
    def sem(self) -> float:
        """Its standard error; NaN of a single seed."""
        return mean_and_sem(self.values)[1] if self.values else math.nan

    @property
    def comparisons(self) -> list[PublishedComparison]:
        """What was measured beside each published number; nothing where it is not compared."""
        if self.obstacle or self.waits_for or not self.values:
            return []
        return [compare(number, self.values, seeds, self.digits, self.of_errors) for number, seeds in self.numbers]

    @property
    def kind(self) -> str:
        """The verdict as one of a few: a judgement by the cell's own number, or why there is none."""
        if self.waits_for:
            return WAITING
        if not self.values:
            return NOT_RUN
        if not self.numbers:
            return NO_NUMBER
        return Judgement.NOT_COMPARABLE.value if self.obstacle else self.comparisons[0].judgement.value

    @property
    def verdicts(self) -> list[str]:
        """The verdict in words, beside each published number; a single one where nothing is compared."""
        about = self.waits_for or (self.obstacle if self.kind == Judgement.NOT_COMPARABLE.value else "")
        return [one.words for one in self.comparisons] or [f"{self.kind}: {about}" if about else self.kind]

    @property
    def verdict(self) -> str:
        """The verdict in one line; what holds beside every published number is said once."""
        return " / ".join(dict.fromkeys(self.verdicts) if len(set(self.verdicts)) == 1 else self.verdicts)

    @property
    def claim(self) -> tuple[str, str]:
        """The same for all lines that say the same of the same runs."""
        return self.key or self.name, self.metric


def claims(lines: Iterable[MeasuredCell]) -> dict[tuple[str, str], MeasuredCell]:
    """Return a line for each claim: the first that has a published number, or the first."""
    found: dict[tuple[str, str], MeasuredCell] = {}
    for line in lines:
        before = found.get(line.claim)
        if before is None or (line.numbers and not before.numbers):
            found[line.claim] = line
    return found
