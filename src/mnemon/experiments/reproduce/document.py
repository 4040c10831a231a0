"""What was reproduced so far, as a document: the verdicts of all recipes, from the runs that are there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from mnemon.errors import UsageError
from mnemon.experiments.reproduce.grid import Grid, grids
from mnemon.experiments.reproduce.plan import Wanted, folder_name, lines, wanted
from mnemon.experiments.reproduce.recipe import BUDGETS, PAPER, SHORT, Recipe
from mnemon.experiments.reproduce.run_index import RunIndex
from mnemon.experiments.reproduce.tables import LEGEND, cells_of, count, notes, outcome_of, published_of
from mnemon.experiments.reproduce.verdict import MeasuredCell, claims
from mnemon.results.record import RunRecord
from mnemon.results.verdict import MARGIN
from mnemon.whole_files import write_text

Claims = Mapping[tuple[str, str], MeasuredCell]
"""The line that speaks for each claim."""


def write(
    path: Path, recipes: Sequence[Recipe], index: RunIndex, budget: str | None = None, keep: Path | None = None
) -> str:
    """Write the document, and the records of its runs to a folder; return how many claims have which verdict.

    A cell shows its runs at the paper's budget or, if there are none, at the short one, unless a budget is named.
    """
    found = {recipe.name: _cells(recipe, index, budget) for recipe in recipes}
    used = {
        one.key: folder_name(one.variant) for cells in found.values() for one in cells if one.key in index.finished
    }
    records = [record for key in sorted(used) for record in index.records(key)]
    if not records:
        raise UsageError(
            "There is no finished run of these recipes here: run them first, or name a folder by --also."
        )
    all_lines = {name: [line for one in cells for line in lines(one, index)] for name, cells in found.items()}
    there = [line for found in all_lines.values() for line in found if line.values]
    spoken_for = claims(there)
    parts = [_opening(records, there)]
    parts += [_section(recipe, found[recipe.name], all_lines[recipe.name], spoken_for) for recipe in recipes]
    write_text(path, "\n".join(parts))
    if keep is not None:
        index.keep(used, keep)
    return count(there)


def _cells(recipe: Recipe, index: RunIndex, budget: str | None) -> list[Wanted]:
    """Return every cell at the first budget at which it was run; what was not run, at the first that it has."""
    by_cell: dict[int, list[Wanted]] = {}
    for name in [budget] if budget else (PAPER, SHORT):
        for one in wanted([recipe], name):
            by_cell.setdefault(id(one.cell), []).append(one)
    return [next((one for one in ones if one.key in index.finished), ones[0]) for ones in by_cell.values()]


def _opening(records: Sequence[RunRecord], everything: Sequence[MeasuredCell]) -> str:
    days = sorted(record.started[:10] for record in records)
    when = days[0] if days[0] == days[-1] else f"between {days[0]} and {days[-1]}"
    budgets = "; ".join(f"*{name}*: {about}" for name, about in BUDGETS.items())
    return f"""# Reproduction

Written by `mnemon reproduce --report` from {len(records)} runs that were begun {when}
with {_made_with(records)}.

In all, every claim once: {count(everything)}.

Measured is the mean over seeds ± its standard error; the difference is measured minus published. The verdicts:

- *above*, *below published*: there is a difference; its 95 % interval (Student's t, for the numbers of seeds that
  were measured and published) leaves out zero. Where the difference is also shown to be small, "within" follows.
- *within*: no difference is seen, and two one-sided tests at 5 % show that it is smaller than the margin.
  {MARGIN}.
- *undecided*: neither is shown. About so many seeds would settle it, if mean and spread stay as they are.
- *not comparable*: another protocol than the paper's, or what the line says.

A single seed is judged by the published spread of single seeds. Where the paper has two numbers for the same runs,
they are compared with both, with a slash between, and counted by the first.
Only runs with a record are here; what else was measured stands in the pages of docs/results.

Budgets: {budgets}.
"""


def _made_with(records: Sequence[RunRecord]) -> str:
    """Say what the runs were made with; older records do not name the processor."""
    found = {}
    for name in ("mnemon", "torch", "python", "processor"):
        found[name] = sorted({record.versions[name] for record in records if name in record.versions})
    return ", ".join(f"{name} {' and '.join(values)}" for name, values in found.items() if values)


def _section(recipe: Recipe, cells: Sequence[Wanted], found: Sequence[MeasuredCell], spoken_for: Claims) -> str:
    parts = [f"## {recipe.name}", "", f"{recipe.about} {recipe.where}.", ""]
    there = [line for line in found if line.values]
    if there:
        parts += [line for grid in grids(found) for line in _layout(grid)]
        parts += _details(there, spoken_for)
        parts += [line for note in notes(there) for line in (f"{note[0].upper()}{note[1:]}.", "")]
    run = {(line.row, line.column) for line in there}
    left = [one for one in cells if (one.cell.row, one.cell.column) not in run and one.config is not None]
    missing = list(dict.fromkeys(one.cell.name for one in left))
    if missing:
        parts += [f"No record here: {', '.join(missing)}.", ""]
    if recipe.waits_for:
        parts += [f"Waiting for presets: {', '.join(recipe.waits_for)}.", ""]
    return "\n".join(parts)


def _layout(grid: Grid) -> list[str]:
    """Return a table in the paper's layout, each measured number under the published one."""
    corner = "" if grid.metric == "final" else grid.metric
    rows = [_as_row([corner, *grid.columns]), "|---" * (1 + len(grid.columns)) + "|"]
    for row in grid.rows:
        lines = [grid.lines.get((row, column)) for column in grid.columns]
        rows.append(_as_row([row, *(f"*{published_of(line)}*" if line else "" for line in lines)]))
        rows.append(_as_row(["", *(outcome_of(line) if line else "" for line in lines)]))
    return [*rows, "", f"In italics, what was published. {LEGEND}.", ""]


def _details(there: Sequence[MeasuredCell], spoken_for: Claims) -> list[str]:
    """Return a row for each claim that is spoken for here, and name the runs that stand in another table."""
    here = [line for line in there if spoken_for[line.claim] is line]
    rows = []
    if here:
        head = ("", "published", "measured", "n", "seeds", "difference", "budget", "verdict")
        rows += [_as_row(head), "|---" * len(head) + "|"]
        rows += [_row(line, [other.name for other in there if other.claim == line.claim]) for line in here]
        rows.append("")
    shown = {line.claim for line in here}
    elsewhere = [f"{line.name} ({spoken_for[line.claim].recipe})" for line in there if line.claim not in shown]
    return [*rows, f"In another table: {', '.join(elsewhere)}.", ""] if elsewhere else rows


def _row(line: MeasuredCell, names: Sequence[str]) -> str:
    _, published, measured, n, difference, verdict = cells_of(line)
    seeds = ", ".join(map(str, line.seeds))
    return _as_row([", ".join(names), published, measured, n, seeds, difference, line.budget, verdict])


def _as_row(cells: Sequence[str]) -> str:
    return f"| {' | '.join(cells)} |"
