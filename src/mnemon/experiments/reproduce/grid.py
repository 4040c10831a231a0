"""A recipe in the layout of the paper's own table: a row and a column for each cell."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from mnemon.experiments.reproduce.verdict import MeasuredCell

FULL = 0.75
"""Share of the places that must be taken: below it, it is not the layout of a table."""


@dataclass(frozen=True)
class Grid:
    """The lines of one metric, by row and column."""

    metric: str
    rows: Sequence[str]
    columns: Sequence[str]
    lines: Mapping[tuple[str, str], MeasuredCell]


def grids(lines: Sequence[MeasuredCell]) -> list[Grid]:
    """Return a grid for each metric of which what was published fills a table of several rows and columns."""
    found = []
    for metric in dict.fromkeys(line.metric for line in lines):
        cells = {(line.row, line.column): line for line in lines if line.metric == metric and line.numbers}
        rows, columns = (list(dict.fromkeys(place[i] for place in cells)) for i in (0, 1))
        if min(len(rows), len(columns)) > 1 and len(cells) > FULL * len(rows) * len(columns):
            found.append(Grid(metric, rows, columns, cells))
    return found
