"""Verdicts as a table: in the terminal, as CSV, as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from mnemon.experiments.reproduce.grid import Grid, grids
from mnemon.experiments.reproduce.recipe import PAPER, Recipe
from mnemon.experiments.reproduce.verdict import NO_NUMBER, NOT_RUN, WAITING, MeasuredCell, claims
from mnemon.results.comparison import as_csv
from mnemon.results.published import Published
from mnemon.results.verdict import MARGIN, Judgement, with_sign

COLUMNS = ("", "published", "measured", "n", "difference", "verdict")
MOST_WAYS = 3
"""Ways to differ from the paper's protocol that are said beneath a table."""
MARKS = {Judgement.ABOVE: "↑", Judgement.BELOW: "↓", Judgement.WITHIN: "=", Judgement.UNDECIDED: "?"}
LEGEND = (
    f"Number of seeds in brackets. {', '.join(f'{mark} {judgement.value}' for judgement, mark in MARKS.items())}; "
    "a run at another protocol has the name of its budget and is not compared"
)
_KINDS = (*(judgement.value for judgement in Judgement), NO_NUMBER, NOT_RUN, WAITING)


def shown(recipe: Recipe, lines: Sequence[MeasuredCell]) -> RenderableType:
    """Show what came out of a recipe."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in COLUMNS:
        long = column in ("", "verdict")
        table.add_column(column, justify="left" if long else "right", no_wrap=not long, overflow="fold")
    for line in lines:
        *cells, _ = cells_of(line, between="\n")
        verdict = "\n".join(line.verdicts)
        table.add_row(*map(Text, cells), Text(verdict, style=_style(line)))
    title = Text(f"\n{recipe.name}", style="bold").append(f"  {recipe.about} ({recipe.where})\n", style="")
    layouts = [_IfWideEnough(_as_table(grid)) for grid in grids(lines)]
    margin = [MARGIN] if any(line.comparisons for line in lines) else []
    return Group(title, *layouts, table, *(Text(note, style="dim") for note in [*margin, *notes(lines)]))


def _style(line: MeasuredCell) -> str:
    if line.kind in (Judgement.WITHIN, Judgement.ABOVE, Judgement.BELOW):
        worse = Judgement.ABOVE if line.of_errors else Judgement.BELOW
        return "yellow" if line.kind == worse else "green"
    return ""


class _IfWideEnough:
    """A table that is left out where its lines would have to be broken."""

    def __init__(self, table: Table):
        self.table = table

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        wide = options.update(width=1000, max_width=1000)
        if Measurement.get(console, wide, self.table).maximum <= options.max_width:
            yield self.table
            yield Text(f"{LEGEND}.\n", style="dim")


def _as_table(grid: Grid) -> Table:
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in ("" if grid.metric == "final" else grid.metric, *grid.columns):
        table.add_column(column, no_wrap=True)
    for row in grid.rows:
        lines = [grid.lines.get((row, column)) for column in grid.columns]
        table.add_row(row, *(Text(published_of(line)) if line else "" for line in lines), style="dim")
        table.add_row("", *(Text(outcome_of(line)) if line else "" for line in lines))
    return table


def notes(lines: Sequence[MeasuredCell]) -> list[str]:
    """Say in what other protocols differ from the paper's, each way once."""
    ways = list(dict.fromkeys(line.detail for line in lines if line.detail))
    more = [f"and {len(ways) - MOST_WAYS} more ways"] if len(ways) > MOST_WAYS else []
    return [f"other protocol, here and there: {way}" for way in ways[:MOST_WAYS]] + more


def cells_of(line: MeasuredCell, between: str = " / ") -> list[str]:
    """Return a line as words; of several published numbers each has its difference and its verdict."""
    published = between.join(_spread(*number, line.digits) for number, _ in line.numbers)
    difference = between.join(with_sign(one.difference, line.digits) for one in line.comparisons)
    return [line.name, published, measured_of(line), str(len(line.values) or ""), difference, line.verdict]


def measured_of(line: MeasuredCell) -> str:
    """Return the measured mean with its standard error; nothing where nothing was run."""
    return _spread(line.mean, line.sem, line.digits) if line.values else ""


def published_of(line: MeasuredCell) -> str:
    """Return the cell's own published number."""
    return _spread(*line.published, line.digits) if line.published else ""


def outcome_of(line: MeasuredCell) -> str:
    """Return what was measured in a place of the paper's table, with a mark for the verdict."""
    if not line.values:
        return line.kind
    there = f"{measured_of(line)} ({len(line.values)})"
    if line.comparisons:
        return f"{there} {MARKS[line.comparisons[0].judgement]}"
    return there if line.budget == PAPER else f"{line.budget}: {there}"


def _spread(mean: float, sem: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(sem) else f" ± {sem:.{digits}f}")


def count(lines: Iterable[MeasuredCell]) -> str:
    """Say how many claims have which verdict; a run that stands in several places counts once."""
    found = list(claims(lines).values())
    kinds = Counter(line.kind for line in found)
    small = Counter(line.kind for line in found for one in line.comparisons[:1] if one.close)
    parts = []
    for kind in (kind for kind in _KINDS if kinds[kind]):
        also = f" ({small[kind]} of them within the margin)" if kind != Judgement.WITHIN and small[kind] else ""
        parts.append(f"{kinds[kind]} {kind}{also}")
    return ", ".join(parts)


CSV_COLUMNS = (
    "row", "column", "metric", "budget", "x", "published", "published_sem", "measured", "sem", "n", "seeds",
    "difference", "verdict", "detail",
)  # fmt: skip


def csv_of(lines: Sequence[MeasuredCell]) -> str:
    """Return lines as CSV."""
    return as_csv(CSV_COLUMNS, (csv_line(line) for line in lines))


def csv_line(line: MeasuredCell) -> list[object]:
    """Return a line as the values of its columns."""
    published = line.published or Published(math.nan)
    difference = line.mean - published.mean
    return [
        line.row, line.column, line.metric, line.budget, math.nan if line.x is None else line.x, *published,
        line.mean, line.sem, len(line.values), " ".join(map(str, line.seeds)), difference, line.verdict, line.detail,
    ]  # fmt: skip
