"""The data of each figure as CSV and, with the extra `report`, the figure itself."""

from __future__ import annotations

import math
import shutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from mnemon.errors import UsageError
from mnemon.experiments.artifacts import embedding_maps
from mnemon.experiments.compute import Compute
from mnemon.experiments.reproduce.plan import Wanted
from mnemon.experiments.reproduce.recipe import PAPER, SMOKE, Recipe
from mnemon.experiments.reproduce.run_index import RunIndex
from mnemon.experiments.reproduce.verdict import MeasuredCell
from mnemon.results import figures, samples
from mnemon.results.comparison import as_csv
from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import Published
from mnemon.results.record import RunRecord
from mnemon.whole_files import write_text

SIDE, SMOKE_SIDE = 25, 7
"""Places along each side of a map."""


@dataclass(frozen=True)
class Outcome:
    """What a recipe came to."""

    recipe: Recipe
    cells: Sequence[Wanted]
    lines: Sequence[MeasuredCell]
    index: RunIndex
    out: Path
    """The folder of all recipes and runs."""
    compute: Compute

    @property
    def folder(self) -> Path:
        """The folder of this recipe."""
        return self.out / self.recipe.name


Chart = Callable[[], object]
"""Draws, when it is called: the packages for it may be missing."""


def write(outcome: Outcome) -> str:
    """Write the data of a recipe's figure and, if that is possible, the figure; return what is to be said of it."""
    if not outcome.recipe.figure:
        return ""
    try:
        for name, chart in FIGURES[outcome.recipe.figure](outcome).items():
            figures.save(_noted(chart(), outcome), outcome.folder / f"{name}.svg")
    except UsageError as error:
        return str(error)
    return ""


def _noted(chart: Any, outcome: Outcome) -> Any:
    """Say in the title that explains published marks that what is beside them was run at another budget."""
    budget = outcome.cells[0].budget
    if budget != PAPER and isinstance(chart.title, str) and "published" in chart.title:
        chart.title = f"{chart.title}; all else: budget {budget}"
    return chart


def _tasks(outcome: Outcome) -> dict[str, Chart]:
    """Every task of every cell, right after it was learned and at the end."""
    rows: list[list[object]] = []
    groups: dict[str, list[RunRecord]] = {}
    published: dict[str, Published | None] = {}
    for one in outcome.cells:
        label, records = one.cell.name, alike(outcome.index.records(one.key))
        for record in records:
            values = record.accuracy.values
            rows += [
                [label, record.seed, j + 1, name, float(values[j, j]), float(values[-1, j])]
                for j, name in enumerate(record.task_names)
            ]
        if records:
            groups[label], published[label] = records, one.cell.published.get("final")
            if "during" in one.cell.metrics:
                after = f"{label}, right after"
                groups[after] = [_right_after(record) for record in records]
                published[after] = one.cell.published.get("during")
    write_text(
        outcome.folder / "tasks.csv", as_csv(("label", "seed", "task", "name", "right_after", "at_the_end"), rows)
    )
    known = {label: number for label, number in published.items() if number}
    return {"tasks": lambda: figures.methods_per_task(groups, known)} if groups else {}


def alike(records: Sequence[RunRecord]) -> list[RunRecord]:
    """Return runs of the same settings under one name: they may have been begun under several."""
    return [replace(record, preset=records[0].preset, config=records[0].config) for record in records]


def _right_after(record: RunRecord) -> RunRecord:
    """Return a record that has, at the end, each task as it was right after it was learned."""
    own = [row[j] for j, row in enumerate(record.matrix)]
    return replace(record, matrix=[*record.matrix[:-1], own])


def _against(outcome: Outcome) -> dict[str, Chart]:
    """Accuracy against a strength or a compression; cells that share a row are averaged."""
    there = [line for line in outcome.lines if line.values and line.x is not None]
    none = Published(math.nan)
    rows = [
        [line.column, line.row, line.metric, line.x, line.mean, line.sem, len(line.values), *(line.published or none)]
        for line in there
    ]
    columns = ("series", "row", "metric", "x", "mean", "sem", "n", "published", "published_sem")
    write_text(outcome.folder / "points.csv", as_csv(columns, rows))
    groups: dict[tuple[str, str], dict[str, list[MeasuredCell]]] = {}
    for line in there:
        groups.setdefault((line.column, line.metric), {}).setdefault(line.row, []).append(line)
    if any(len(lines) > 1 for bins in groups.values() for lines in bins.values()):
        _write_bins(outcome, groups)
    series = [
        figures.Series(f"{column}, {metric}", [_point(lines) for lines in bins.values()], _published(bins))
        for (column, metric), bins in groups.items()
    ]
    against = outcome.recipe.against
    return {"against": lambda: figures.accuracy_against(series, against, log=True)} if series else {}


def _point(lines: Sequence[MeasuredCell]) -> figures.Point:
    if len(lines) == 1:
        return figures.Point(lines[0].x or 0.0, lines[0].mean, lines[0].sem)
    return figures.Point(
        sum(line.x or 0.0 for line in lines) / len(lines), *mean_and_sem([line.mean for line in lines])
    )


def _published(bins: Mapping[str, Sequence[MeasuredCell]]) -> list[figures.Point]:
    return [
        figures.Point(line.x or 0.0, *line.published) for lines in bins.values() for line in lines if line.published
    ]


def _write_bins(outcome: Outcome, groups: dict[tuple[str, str], dict[str, list[MeasuredCell]]]) -> None:
    rows = []
    for (column, metric), bins in groups.items():
        for row, lines in bins.items():
            mean, sem = mean_and_sem([line.mean for line in lines])
            std = sem * math.sqrt(len(lines))
            rows.append([column, metric, row, len(lines), mean, std])
    columns = ("series", "metric", "bin", "architectures", "mean", "std")
    write_text(outcome.folder / "bins.csv", as_csv(columns, rows))


def _embeddings(outcome: Outcome) -> dict[str, Chart]:
    """The map of the first seed's embedding space, kept in its run folder too."""
    charts: dict[str, Chart] = {}
    for one in outcome.cells:
        found = outcome.index.first(one.key)
        if found is None:
            continue
        own = outcome.out in found.folder.parents
        home = found.folder if own else outcome.folder  # others' runs are left as they are
        space = figures.EmbeddingMap.read(home)
        if space is None:
            space = embedding_maps.map_of(found.folder, outcome.compute, SMOKE_SIDE if one.budget == SMOKE else SIDE)
            space.write(home)
        _write_map(outcome.folder, space)
        for name in space.accuracy:
            number = 1 + list(space.embeddings).index(name)
            charts[f"task-{number}"] = lambda space=space, name=name: figures.embedding_map(space, name)  # type: ignore[misc]
    return charts


def _write_map(folder: Path, space: figures.EmbeddingMap) -> None:
    rows = [
        [task, x, y, grid[i][j]]
        for task, grid in space.accuracy.items()
        for i, y in enumerate(space.ys)
        for j, x in enumerate(space.xs)
    ]
    write_text(folder / "map.csv", as_csv(("task", "x", "y", "accuracy"), rows))
    write_text(folder / "embeddings.csv", as_csv(("task", "x", "y"), [[t, *p] for t, p in space.embeddings.items()]))


def _predictions(outcome: Outcome) -> dict[str, Chart]:
    """What the first seed of each cell predicts over the range of each task."""
    rows: list[list[object]] = []
    found: dict[str, list[figures.PredictedCurve]] = {}
    for one in outcome.cells:
        first, label = outcome.index.first(one.key), one.cell.column
        for curve in figures.read_curves(first.folder) if first else []:
            found.setdefault(label, []).append(curve)
            points = zip(curve.x, curve.truth, curve.right_after, curve.at_the_end, strict=True)
            rows += [[label, curve.name, *point] for point in points]
    columns = ("label", "task", "x", "truth", "right_after", "at_the_end")
    write_text(outcome.folder / "predictions.csv", as_csv(columns, rows))
    return {"predictions": lambda: figures.predictions(found)} if found else {}


def _samples(outcome: Outcome) -> dict[str, Chart]:
    """The sheets of samples that the runs drew, and how far each task's samples have drifted."""
    rows: list[list[object]] = []
    for one in outcome.cells:
        first = outcome.index.first(one.key)
        if first is None:
            continue
        record = first.record
        rows += [
            [one.cell.column, record.seed, name, d] for name, d in zip(record.task_names, record.drift, strict=False)
        ]
        sheet = first.folder / samples.FOLDER / samples.SHEET
        if sheet.exists():
            shutil.copyfile(sheet, outcome.folder / f"{one.cell.column}.png")
    write_text(outcome.folder / "drift.csv", as_csv(("label", "seed", "task", "drift"), rows))
    return {}


FIGURES: dict[str, Callable[[Outcome], dict[str, Chart]]] = {
    "tasks": _tasks,
    "against": _against,
    "embeddings": _embeddings,
    "predictions": _predictions,
    "samples": _samples,
}
