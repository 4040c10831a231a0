"""What recipes came to, written down: tables, their numbers, and figures, a folder for each recipe."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.text import Text

from mnemon.experiments.reproduce import figures
from mnemon.experiments.reproduce.plan import Wanted, lines
from mnemon.experiments.reproduce.recipe import Recipe
from mnemon.experiments.reproduce.run_index import RunIndex
from mnemon.experiments.reproduce.tables import count, csv_of, shown
from mnemon.experiments.run import Compute
from mnemon.results.record import make_folder
from mnemon.whole_files import write_text

TABLE, NUMBERS = "table.txt", "cells.csv"


def write(
    recipes: Sequence[Recipe], cells: Sequence[Wanted], index: RunIndex, out: Path, compute: Compute
) -> tuple[RenderableType, list[str]]:
    """Write what each recipe came to; return the tables, and what else is to be said."""
    tables: list[RenderableType] = []
    remarks, everything = [], []
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
    tables.append(Text(f"\nIn all: {count(everything)}."))
    return Group(*tables), [remark for remark in dict.fromkeys(remarks) if remark]


def _as_text(table: RenderableType) -> str:
    text = io.StringIO()
    Console(file=text, width=140, markup=False, highlight=False).print(table)
    return text.getvalue()
