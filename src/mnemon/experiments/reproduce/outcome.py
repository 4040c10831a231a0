"""What recipes came to, written down: tables, their numbers, and figures, a folder for each recipe."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Console, Group, RenderableType
from rich.text import Text

from mnemon.experiments.compute import Compute
from mnemon.experiments.reproduce import figures
from mnemon.experiments.reproduce.plan import Wanted, lines
from mnemon.experiments.reproduce.recipe import Recipe
from mnemon.experiments.reproduce.run_index import RunIndex
from mnemon.experiments.reproduce.tables import CSV_COLUMNS, count, csv_line, csv_of, shown
from mnemon.experiments.reproduce.verdict import MeasuredCell
from mnemon.results.frame import as_frame
from mnemon.results.record import make_folder
from mnemon.results.terminal.console import as_html, as_text
from mnemon.whole_files import write_text

if TYPE_CHECKING:
    import pandas

TABLE, NUMBERS = "table.txt", "cells.csv"


@dataclass(frozen=True, repr=False)
class Reproduction:
    """What tables and figures of the paper came to, run again: a line for each cell and metric.

    Example:
        >>> result = mnemon.reproduce("table-1", budget="smoke")  # doctest: +SKIP
        >>> [(line.name, line.mean, line.verdict) for line in result.lines]  # doctest: +SKIP
    """

    folder: Path
    lines: Sequence[MeasuredCell]
    tables: Sequence[RenderableType]
    remarks: Sequence[str] = ()
    """What could not be drawn, and why."""

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with a row for each line.

        Raises:
            UsageError: If pandas is not installed.
        """
        return as_frame(("recipe", *CSV_COLUMNS), ([line.recipe, *csv_line(line)] for line in self.lines))

    def __rich__(self) -> RenderableType:
        return Group(*self.tables, Text(f"\nIn all: {count(self.lines)}."))

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"<Reproduction of {', '.join(dict.fromkeys(line.recipe for line in self.lines))}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return as_html(str(self))


def write(
    recipes: Sequence[Recipe], cells: Sequence[Wanted], index: RunIndex, out: Path, compute: Compute
) -> Reproduction:
    """Write what each recipe came to, and return it."""
    tables: list[RenderableType] = []
    remarks: list[str] = []
    everything: list[MeasuredCell] = []
    for recipe in recipes:
        own = [one for one in cells if one.recipe is recipe]
        if not own:
            continue
        found = [line for one in own for line in lines(one, index)]
        everything += found
        outcome = figures.Outcome(recipe, own, found, index, out, compute)
        make_folder(outcome.folder)
        write_text(outcome.folder / NUMBERS, csv_of(found))
        tables.append(shown(recipe, found))
        write_text(outcome.folder / TABLE, _as_text(tables[-1]))
        remarks.append(figures.write(outcome))
    return Reproduction(out, everything, tables, [remark for remark in dict.fromkeys(remarks) if remark])


def _as_text(table: RenderableType) -> str:
    text = io.StringIO()
    Console(file=text, width=140, markup=False, highlight=False).print(table)
    return text.getvalue()
