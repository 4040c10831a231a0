"""Verdicts as a table: in the terminal, as CSV, as Markdown."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

from rich.box import SIMPLE_HEAD
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from mnemon.experiments.reproduce.recipe import Recipe
from mnemon.experiments.reproduce.verdict import (
    BETTER,
    NO_NUMBER,
    NOT_COMPARABLE,
    NOT_RUN,
    SHORT,
    WAITING,
    WITHIN,
    Line,
)
from mnemon.results.comparison import as_csv

COLUMNS = ("", "published", "measured", "n", "difference", "verdict")
MOST_WAYS = 3
"""Ways to differ from the paper's protocol that are said beneath a table."""
_STYLES = {WITHIN: "green", BETTER: "green", SHORT: "yellow"}
_KINDS = (WITHIN, BETTER, SHORT, NOT_COMPARABLE, NO_NUMBER, NOT_RUN, WAITING)


def shown(recipe: Recipe, lines: Sequence[Line]) -> RenderableType:
    """Show what came out of a recipe."""
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in COLUMNS:
        long = column in ("", "verdict")
        table.add_column(column, justify="left" if long else "right", no_wrap=not long, overflow="fold")
    for line in lines:
        style = next((style for start, style in _STYLES.items() if line.verdict.startswith(start)), "")
        *cells, verdict = cells_of(line)
        table.add_row(*map(Text, cells), Text(verdict, style=style))
    title = Text(f"\n{recipe.name}", style="bold").append(f"  {recipe.about} ({recipe.where})\n", style="")
    return Group(title, table, *(Text(note, style="dim") for note in notes(lines)))


def notes(lines: Sequence[Line]) -> list[str]:
    """Say in what other protocols differ from the paper's, each way once."""
    ways = list(dict.fromkeys(line.detail for line in lines if line.detail))
    more = [f"and {len(ways) - MOST_WAYS} more ways"] if len(ways) > MOST_WAYS else []
    return [f"other protocol, here and there: {way}" for way in ways[:MOST_WAYS]] + more


def cells_of(line: Line) -> list[str]:
    """Return a line as words."""
    name = " ".join(part for part in (line.row, line.column, "" if line.metric == "final" else line.metric) if part)
    published = _spread(line.published.mean, line.published.sem, line.digits) if line.published else ""
    measured = _spread(line.mean, line.sem, line.digits) if line.values else ""
    told = not math.isnan(line.difference) and not line.verdict.startswith(NOT_COMPARABLE)
    difference = f"{line.difference:+.{line.digits}f}" if told else ""
    return [name, published, measured, str(len(line.values) or ""), difference, line.verdict]


def _spread(mean: float, sem: float, digits: int) -> str:
    return f"{mean:.{digits}f}" + ("" if math.isnan(sem) else f" ± {sem:.{digits}f}")


def count(lines: Sequence[Line]) -> str:
    """Say how many lines have which verdict."""
    found = Counter(next(kind for kind in _KINDS if line.verdict.startswith(kind)) for line in lines)
    words = {SHORT: "short of it", BETTER: "better", WAITING: "waiting for their preset"}
    return ", ".join(f"{found[kind]} {words.get(kind, kind)}" for kind in _KINDS if found[kind])


_CSV = (
    "row", "column", "metric", "budget", "x", "published", "published_sem", "measured", "sem", "n", "seeds",
    "difference", "verdict", "detail",
)  # fmt: skip


def csv_of(lines: Sequence[Line]) -> str:
    """Return lines as CSV."""
    return as_csv(_CSV, (_csv_line(line) for line in lines))


def _csv_line(line: Line) -> list[object]:
    published = line.published or (math.nan, math.nan)
    return [
        line.row, line.column, line.metric, line.budget, math.nan if line.x is None else line.x, *published,
        line.mean, line.sem, len(line.values), " ".join(map(str, line.seeds)), line.difference, line.verdict,
        line.detail,
    ]  # fmt: skip
