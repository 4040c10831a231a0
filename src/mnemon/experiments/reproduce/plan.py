"""From recipes to runs: which are needed, which are there, which are left."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemon.config import differences
from mnemon.errors import UsageError
from mnemon.experiments.reproduce.recipe import PAPER, Cell, Recipe, Variant, presets
from mnemon.experiments.reproduce.shelf import Shelf, key_of, substance
from mnemon.experiments.reproduce.verdict import NOT_COMPARABLE, WAITING, Line, judge
from mnemon.experiments.run import Place, begin
from mnemon.experiments.run_config import RunConfig, from_record, resolve
from mnemon.experiments.study import Job
from mnemon.results.record import RECORD, RunRecord, make_folder
from mnemon.whole_files import is_there

RUNS = "runs"


@dataclass(frozen=True)
class Wanted:
    """A cell of a recipe at a budget, with what it needs to be run."""

    recipe: Recipe
    cell: Cell
    budget: str
    variant: Variant
    config: RunConfig | None
    """None while its preset does not exist."""

    @functools.cached_property
    def key(self) -> str:
        """What its runs are found by."""
        return key_of(self.config) if self.config else ""


def wanted(recipes: Sequence[Recipe], budget: str) -> list[Wanted]:
    """Return the cells that a budget has of some recipes."""
    return [
        Wanted(recipe, cell, budget, variant, _config(variant))
        for recipe in recipes
        for cell in recipe.cells
        if (variant := cell.variants.get(budget)) is not None
    ]


def _config(variant: Variant) -> RunConfig | None:
    return resolve(presets()[variant.preset], variant.settings) if variant.exists else None


@dataclass(frozen=True)
class Plan:
    """The runs that some recipes need at a budget."""

    cells: list[Wanted]
    jobs: list[Job]
    """What is left to run."""
    n_done: int
    n_begun: int
    """Of the jobs, how many go on from a checkpoint."""
    seconds: float
    """About how long the jobs take on one core."""


def make_plan(cells: list[Wanted], seeds: int | None, out: Path, shelf: Shelf) -> Plan:
    """Find out what is left; what several recipes need is run once, all cells of a seed before the next seed."""
    needed: dict[tuple[int, str], Wanted] = {}
    for one in cells:
        if one.config is not None:
            for seed in range(seeds or one.recipe.n_seeds(one.cell, one.budget)):
                needed.setdefault((seed, one.key), one)
    jobs: list[Job] = []
    n_done, n_begun, seconds, taken = 0, 0, 0.0, set[Path]()
    for seed, key in sorted(needed, key=lambda both: both[0]):
        one = needed[seed, key]
        assert one.config is not None
        if seed in shelf.finished.get(key, {}):
            n_done += 1
            continue
        begun = shelf.unfinished.get(key, {}).get(seed)
        config, folder = (
            (begun.config, begun.folder)
            if begun
            else (one.config, out / RUNS / folder_name(one.variant) / f"seed-{seed}")
        )
        if begun is None:
            _check_free(folder, one.config)
        if folder in taken:
            raise UsageError(f"Two different runs would both be kept in {folder}: name their settings alike.")
        taken.add(folder)
        n_begun += begun is not None
        seconds += one.variant.seconds
        jobs.append(Job(len(jobs), config, seed, folder, folder.parent.name))
    return Plan(cells, jobs, n_done, n_begun, seconds)


def folder_name(variant: Variant) -> str:
    """Return the name of a variant's folder, for any file system: PRESET, PRESET@budget, PRESET@budget+name=value."""
    own = [re.sub(r"[^\w.=-]+", "-", word).replace("=-", "=").strip("-") for word in variant.own]
    return "+".join([variant.preset + (f"@{variant.budget}" if variant.budget else ""), *own])


def _check_free(folder: Path, config: RunConfig) -> None:
    """Refuse a folder in which there is a run with other settings."""
    if not is_there(folder / RECORD):
        return
    try:
        different = differences(substance(from_record(RunRecord.read(folder))), substance(config))
    except UsageError as error:
        different = [str(error)]
    shown = ", ".join(different[:3]) or "its seed"
    raise UsageError(
        f"{folder} holds a run with other settings than the recipe has now: {shown} (there and now). "
        "Choose another --out, or move that folder away."
    )


def prepare(jobs: Sequence[Job], place: Place) -> None:
    """Make the folders of the jobs, after all that can be wrong with data and networks has shown itself."""
    checked = set()
    for job in jobs:
        kind = (repr(job.config.benchmark), job.config.method_name)
        if kind not in checked:
            begin(job.config, job.seed, place)
            checked.add(kind)
    for job in jobs:
        make_folder(job.folder)


# What came out


def lines(one: Wanted, shelf: Shelf) -> list[Line]:
    """Return what is there of a cell, a line for each metric."""
    records = shelf.records(one.key) if one.config else []
    return [_line(one, metric, records) for metric in one.cell.metrics]


def _line(one: Wanted, metric: str, records: list[RunRecord]) -> Line:
    cell, recipe = one.cell, one.recipe
    found = [(record.seed, value) for record in records if not math.isnan(value := measured(record, metric))]
    values = tuple(value for _, value in found)
    errors = any(record.accuracy.of_errors for record in records)
    digits = 4 if metric == "drift" else max((record.digits for record in records), default=2)
    published = cell.published.get(metric)
    why, detail = _not_comparable(one) if published and values else ("", "")
    if one.config is None:
        verdict = f"{WAITING} its preset {one.variant.preset}"
    elif why:
        verdict = f"{NOT_COMPARABLE}: {why}"
    else:
        verdict = judge(published, recipe.published_seeds(cell), values, digits, errors)
    x = cell.x
    if recipe.against == "compression" and records:
        x = records[0].counts["compression"]
    seeds = tuple(seed for seed, _ in found)
    return Line(
        recipe.name, cell.row, cell.column, metric, one.budget, published, values, seeds, digits, verdict, detail, x
    )


def measured(record: RunRecord, metric: str) -> float:
    """Return a metric of a finished run; NaN where it has none."""
    if metric == "drift":
        return record.largest_drift
    return record.accuracy.metrics[metric].value


def _not_comparable(one: Wanted) -> tuple[str, str]:
    """Say why a run says nothing of the published number, and in which settings it differs; nothing, if it does."""
    if one.cell.caveat:
        return one.cell.caveat, ""
    paper = one.cell.variants.get(PAPER)
    config = _config(paper) if paper else None
    assert one.config is not None
    if config is None:
        return "the paper's own run is not known", ""
    different = differences(substance(one.config), substance(config))
    return ("other protocol", ", ".join(different)) if different else ("", "")
