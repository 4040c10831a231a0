"""From recipes to runs: which are needed, which are there, which are left."""

from __future__ import annotations

import functools
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path

from mnemon.config import differences, first_of
from mnemon.errors import DataError, UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Job
from mnemon.experiments.reproduce.recipe import PAPER, Cell, Recipe, Variant, presets
from mnemon.experiments.reproduce.run_index import RunIndex, key_of, substance
from mnemon.experiments.reproduce.verdict import MeasuredCell
from mnemon.experiments.run import build_run
from mnemon.experiments.run_config import RunConfig, from_record, resolve
from mnemon.results.naming import short_name
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
class ReproductionPlan:
    """The runs that some recipes need at a budget."""

    cells: list[Wanted]
    jobs: list[Job]
    """What is left to run."""
    n_done: int
    n_begun: int
    """Of the jobs, how many are resumed from a checkpoint."""
    seconds: float
    """About how long the jobs take on one core."""
    skipped: list[Wanted]
    """The cells with runs that cannot be made: their data are missing."""

    def can_show(self, recipe: Recipe, index: RunIndex) -> bool:
        """Tell whether there is anything to show of a recipe: not if all that it needs is skipped."""
        own = [one for one in self.cells if one.recipe is recipe and one.config is not None]
        skipped = {one.key for one in self.skipped} - index.finished.keys()
        return not own or any(one.key not in skipped for one in own)


def make_plan(
    cells: list[Wanted], seeds: int | None, out: Path, index: RunIndex, without: Collection[str] = ()
) -> ReproductionPlan:
    """Find out what is left; what several recipes need is run once, all cells of a seed before the next seed.

    `without`: benchmarks whose data are missing.
    """
    needed = _needed(cells, seeds)
    left = {(seed, key): one for (seed, key), one in needed.items() if seed not in index.finished.get(key, {})}
    skipped = {key for (_, key), one in left.items() if _benchmark(one) in without}
    jobs: list[Job] = []
    n_begun, seconds, taken = 0, 0.0, set[Path]()
    for (seed, key), one in left.items():
        if key in skipped:
            continue
        begun = index.unfinished.get(key, {}).get(seed)
        config, folder = (begun.config, begun.folder) if begun else _new_run(one, seed, out)
        if folder in taken:
            raise UsageError(f"Two different runs would both be saved to {folder}: name their settings alike.")
        taken.add(folder)
        n_begun += begun is not None
        seconds += one.variant.seconds
        jobs.append(Job(len(jobs), config, seed, folder, folder.parent.name))
    n_done = len(needed) - len(left)
    return ReproductionPlan(cells, jobs, n_done, n_begun, seconds, [one for one in cells if one.key in skipped])


def _needed(cells: list[Wanted], seeds: int | None) -> dict[tuple[int, str], Wanted]:
    """Return the runs that cells need by seed and settings, in the order in which they are run."""
    needed: dict[tuple[int, str], Wanted] = {}
    for one in cells:
        if one.config is not None:
            for seed in range(seeds or one.recipe.n_seeds(one.cell, one.budget)):
                needed.setdefault((seed, one.key), one)
    return dict(sorted(needed.items(), key=lambda item: item[0][0]))


def _benchmark(one: Wanted) -> str:
    return one.config.benchmark_name if one.config else ""


def _new_run(one: Wanted, seed: int, out: Path) -> tuple[RunConfig, Path]:
    """Return the config and the folder of a run that is not begun yet."""
    assert one.config is not None
    folder = out / RUNS / folder_name(one.variant) / f"seed-{seed}"
    _check_free(folder, one.config)
    return one.config, folder


def folder_name(variant: Variant) -> str:
    """Return the name of a variant's folder, for any file system: PRESET, PRESET@budget, PRESET@budget+name=value."""
    return short_name(variant.preset + (f"@{variant.budget}" if variant.budget else ""), variant.own)


def _check_free(folder: Path, config: RunConfig) -> None:
    """Refuse a folder in which there is a run with other settings."""
    if not is_there(folder / RECORD):
        return
    try:
        different = differences(substance(from_record(RunRecord.read(folder))), substance(config))
    except UsageError as error:
        different = [str(error)]
    shown = first_of(different) or "its seed"
    raise UsageError(
        f"{folder} holds a run with other settings than the recipe has now: {shown} (there and now). "
        "Choose another --out, or move that folder away."
    )


def missing_data(jobs: Sequence[Job], compute: Compute) -> dict[str, str]:
    """Return the benchmarks whose data are missing or damaged, each with what is to be said of that.

    Whatever else can be wrong with settings and networks shows here, too, before anything is written.
    """
    missing: dict[str, str] = {}
    checked = set()
    for job in jobs:
        kind = (repr(job.config.benchmark), job.config.method_name)
        if kind in checked or job.config.benchmark_name in missing:
            continue
        checked.add(kind)
        try:
            build_run(job.config, job.seed, compute)
        except DataError as error:
            missing[job.config.benchmark_name] = str(error)
    return missing


def make_folders(jobs: Sequence[Job]) -> None:
    """Make the folders of the jobs."""
    for job in jobs:
        make_folder(job.folder)


# What came out


def lines(one: Wanted, index: RunIndex) -> list[MeasuredCell]:
    """Return what is there of a cell, a line for each metric."""
    records = index.records(one.key) if one.config else []
    return [_line(one, metric, records) for metric in one.cell.metrics]


def _line(one: Wanted, metric: str, records: list[RunRecord]) -> MeasuredCell:
    cell = one.cell
    found = [(record.seed, value) for record in records if not math.isnan(value := measured(record, metric))]
    numbers = tuple(one.recipe.numbers(cell, metric))
    obstacle, detail = _not_comparable(one) if numbers and found else ("", "")
    return MeasuredCell(
        one.recipe.name,
        cell.row,
        cell.column,
        metric,
        one.budget,
        numbers,
        values=tuple(value for _, value in found),
        seeds=tuple(seed for seed, _ in found),
        digits=4 if metric == "drift" else max((record.digits for record in records), default=2),
        of_errors=metric == "drift" or any(record.accuracy.of_errors for record in records),
        obstacle=obstacle,
        detail=detail,
        waits_for="" if one.config else one.variant.preset,
        x=records[0].counts["compression"] if one.recipe.against == "compression" and records else cell.x,
        key=one.key or one.variant.preset,
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
        return "the paper's own run is unknown", ""
    different = differences(substance(one.config), substance(config))
    return ("other protocol", ", ".join(different)) if different else ("", "")
