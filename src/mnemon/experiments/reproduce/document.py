"""What was reproduced so far, as a document: the verdicts of all recipes, from the runs that are there."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from mnemon.errors import UsageError
from mnemon.experiments.reproduce.plan import Wanted, folder_name, lines, wanted
from mnemon.experiments.reproduce.recipe import BUDGETS, PAPER, SHORT, Recipe
from mnemon.experiments.reproduce.shelf import Shelf
from mnemon.experiments.reproduce.tables import cells_of, count, notes
from mnemon.experiments.reproduce.verdict import Line
from mnemon.results.record import RunRecord
from mnemon.whole_files import write_text


def write(
    path: Path, recipes: Sequence[Recipe], shelf: Shelf, budget: str | None = None, keep: Path | None = None
) -> str:
    """Write the document, and the records of its runs to a folder; return how many lines have which verdict.

    A cell shows its runs at the paper's budget or, if there are none, at the short one, unless a budget is named.
    """
    found = {recipe.name: _cells(recipe, shelf, budget) for recipe in recipes}
    used = {
        one.key: folder_name(one.variant) for cells in found.values() for one in cells if one.key in shelf.finished
    }
    records = [record for key in sorted(used) for record in shelf.records(key)]
    if not records:
        raise UsageError(
            "There is no finished run of these recipes here: run them first, or name a folder by --also."
        )
    all_lines = {name: [line for one in cells for line in lines(one, shelf)] for name, cells in found.items()}
    there = [line for found in all_lines.values() for line in found if line.values]
    parts = [_opening(records, there)]
    parts += [_section(recipe, found[recipe.name], all_lines[recipe.name]) for recipe in recipes]
    write_text(path, "\n".join(parts))
    if keep is not None:
        shelf.keep(used, keep)
    return count(there)


def _cells(recipe: Recipe, shelf: Shelf, budget: str | None) -> list[Wanted]:
    """Return every cell at the first budget at which it was run; what was not run, at the first that it has."""
    by_cell: dict[int, list[Wanted]] = {}
    for name in [budget] if budget else (PAPER, SHORT):
        for one in wanted([recipe], name):
            by_cell.setdefault(id(one.cell), []).append(one)
    return [next((one for one in ones if one.key in shelf.finished), ones[0]) for ones in by_cell.values()]


def _opening(records: Sequence[RunRecord], everything: Sequence[Line]) -> str:
    days = sorted(record.started[:10] for record in records)
    versions = {name: sorted({r.versions.get(name, "?") for r in records}) for name in ("mnemon", "torch", "python")}
    named = ", ".join(f"{name} {' and '.join(found)}" for name, found in versions.items())
    when = days[0] if days[0] == days[-1] else f"between {days[0]} and {days[-1]}"
    budgets = "; ".join(f"*{name}*: {about}" for name, about in BUDGETS.items())
    return f"""# Reproduction

Written by `mnemon reproduce --report` from {len(records)} runs that were begun {when}
with {named}.

In all, by lines (a run that several tables share counts in each): {count(everything)}.

Measured is the mean over seeds ± its standard error. *Within the spread*: the difference is at most two standard
errors of it; a single seed is judged by the published spread of single seeds.
A run at another protocol than the paper's is not compared with the paper's number.
Only runs with a record are in it; what else was measured stands in the pages of docs/results.

Budgets: {budgets}.
"""


def _section(recipe: Recipe, cells: Sequence[Wanted], found: Sequence[Line]) -> str:
    parts = [f"## {recipe.name}", "", f"{recipe.about} {recipe.where}.", ""]
    there = [line for line in found if line.values]
    if there:
        parts += [
            "| | published | measured | n | seeds | difference | budget | verdict |",
            "|---|---|---|---|---|---|---|---|",
        ]
        parts += [*(_row(line) for line in there), ""]
        parts += [line for note in notes(there) for line in (f"{note[0].upper()}{note[1:]}.", "")]
    run = {(line.row, line.column) for line in there}
    left = [one for one in cells if (one.cell.row, one.cell.column) not in run and one.config is not None]
    missing = list(dict.fromkeys(one.cell.name for one in left))
    if missing:
        parts += [f"No record here: {', '.join(missing)}.", ""]
    if recipe.waits_for:
        parts += [f"Waiting for presets: {', '.join(recipe.waits_for)}.", ""]
    return "\n".join(parts)


def _row(line: Line) -> str:
    name, published, measured, n, difference, verdict = cells_of(line)
    seeds = ", ".join(map(str, line.seeds))
    return f"| {name} | {published} | {measured} | {n} | {seeds} | {difference} | {line.budget} | {verdict} |"
