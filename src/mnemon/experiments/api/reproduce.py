"""`mnemon.reproduce`: tables and figures of the paper, run again beside what was published."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path

from mnemon.benchmarks.sources import check_named_folder
from mnemon.errors import DataError, UsageError, choose
from mnemon.experiments.api.follow import follow_jobs
from mnemon.experiments.api.options import Folder, Options, check_alone, make_options
from mnemon.experiments.cost import in_words
from mnemon.experiments.reproduce import outcome
from mnemon.experiments.reproduce.outcome import Reproduction
from mnemon.experiments.reproduce.plan import ReproductionPlan, make_folders, make_plan, missing_data, wanted
from mnemon.experiments.reproduce.recipe import BUDGETS, SHORT, Recipe, chosen, waits
from mnemon.experiments.reproduce.run_index import RunIndex, look
from mnemon.experiments.screen import Screen
from mnemon.experiments.study import StudyError
from mnemon.experiments.upload import is_url

OUT = "runs/reproduce"


def reproduce(
    names: str | Sequence[str],
    *,
    only: str | Sequence[str] = (),
    budget: str | None = None,
    seeds: int | None = None,
    out: Folder = OUT,
    also: Sequence[str | PathLike[str]] = (),
    workers: int | None = None,
    threads: int = 1,
    on: str | None = None,
    device: str = "auto",
    data: Folder | None = None,
    quiet: bool = False,
    screen: Screen | None = None,
) -> Reproduction:
    """Run tables and figures of the paper again, and put what came out beside what was published.

    Runs that are in the folder already are not run again, and runs that were stopped are resumed. Ctrl-C saves
    everything and raises `Interrupted`, which says how to resume.

    Args:
        names: A table or figure, several of them, or the word all; `mnemon reproduce` lists them.
        only: Only the cells whose name fits: "S-CL3 HNET+R", say, or patterns such as "S-*".
        budget: paper (its own protocol), short (about an hour on two cores for each) or smoke (about a minute for
            each, on the embedded digits). Default: short.
        seeds: Number of seeds, starting at 0. Default: as many as the paper averaged over, for smaller budgets one.
        out: Folder of the runs, tables and figures.
        also: More folders with runs that count; they are only read.
        workers: Runs at a time, each a process of its own. Default: the number of cores.
        threads: Threads per process.
        on: Where runs are done: ray, ray:ADDRESS or ray://HOST:PORT. Default: processes of this machine.
        device: cpu, cuda, mps or auto.
        data: Folder with the data sets. Default: the environment variable MNEMON_DATA, then the cache.
        quiet: Show nothing.
        screen: Where progress is shown. Default: the terminal or the notebook, or `logging`.

    Returns:
        The tables, with a line for each cell and metric.

    Raises:
        UsageError: If there is no such table or figure, or if something is wrong with the data or the folder.
        Interrupted: If Ctrl-C was pressed.

    Example:
        >>> result = mnemon.reproduce("table-1", budget="smoke")  # doctest: +SKIP
        >>> print(result)  # doctest: +SKIP
    """
    check_alone("reproduce")
    options = make_options(screen, quiet, workers=workers, threads=threads, on=on, device=device, data=data)
    options.check_count("seeds", seeds)
    if is_url(str(out)):
        raise UsageError(
            f"{options.screen.option('out')} {out} is a URL: `mnemon reproduce` resumes what is in a folder. Name "
            "one, and copy it when all is done."
        )
    request = Request(
        (names,) if isinstance(names, str) else tuple(names),
        (only,) if isinstance(only, str) else tuple(only),
        budget,
        seeds,
        str(out),
        tuple(map(Path, also)),
    )
    recipes = chosen(request.names, request.only)
    if budget is not None:
        choose("budget", budget, BUDGETS)
    return _Reproducing(request, recipes, options).run()


@dataclass(frozen=True)
class Request:
    """What a user asks to be run again."""

    names: tuple[str, ...]
    only: tuple[str, ...]
    budget: str | None
    seeds: int | None
    out: str
    also: tuple[Path, ...]

    @property
    def folder(self) -> Path:
        """The folder of runs, tables and figures."""
        return Path(self.out)

    def look(self) -> RunIndex:
        """Return the runs that are there."""
        return look(self.folder, self.also)

    def to_resume(self, options: Options) -> str:
        """Return what to write to resume it."""
        given: dict[str, object] = {
            "only": list(self.only) or None,
            "budget": self.budget,
            "seeds": self.seeds,
            "out": self.out if self.out != OUT else None,
            "also": [str(folder) for folder in self.also] or None,
            "workers": options.workers,
            **options.differing(),
        }
        return options.screen.call("reproduce", self.names, {k: v for k, v in given.items() if v is not None})


@dataclass(frozen=True)
class _Reproducing:
    """A request while it is carried out."""

    request: Request
    recipes: list[Recipe]
    options: Options

    def run(self) -> Reproduction:
        """Run what is left, and write what came out."""
        request, screen = self.request, self.options.screen
        index = request.look()
        say_strange(index, screen)
        compute = self.options.compute()
        check_named_folder(compute.data)
        cells = wanted(self.recipes, self.budget)
        self._announce()
        plan = make_plan(cells, request.seeds, request.folder, index)
        missing = missing_data(plan.jobs, compute)
        plan = make_plan(cells, request.seeds, request.folder, index, missing)
        there = [recipe for recipe in self.recipes if plan.can_show(recipe, index)]
        if not there:
            raise DataError(" ".join(dict.fromkeys(missing.values())))
        skipped = _skipped(self.recipes, plan, missing)
        for remark in skipped:
            screen.say(remark)
        self._say_left(plan)
        make_folders(plan.jobs)
        failure: StudyError | None = None
        try:
            if plan.jobs:
                context = self.options.context(compute, request.to_resume(self.options))
                follow_jobs(plan.jobs, context, screen, request.folder)
        except StudyError as error:  # the other runs are finished
            failure = error
        result = self._finish(there, plan, skipped)
        if failure is not None:
            raise failure
        return result

    @property
    def budget(self) -> str:
        """The name of the budget."""
        return self.request.budget or SHORT

    def _announce(self) -> None:
        """Say what each recipe costs at the budget, before anything is run."""
        budget, say = self.budget, self.options.screen.say
        for recipe in self.recipes:
            there = [cell.variants[budget] for cell in recipe.cells if budget in cell.variants]
            if not there:
                say(f"{recipe.name}: not part of the budget {budget}")
            elif any(variant.exists for variant in there):
                n, cost = len(dict.fromkeys(there)), in_words(recipe.seconds(budget, self.request.seeds))
                say(f"{recipe.name}: {n} {'run' if n == 1 else 'runs'} per seed, about {cost} on one core")
            if any(not variant.exists for variant in there):
                say(f"{recipe.name}: {waits(recipe)}")

    def _say_left(self, plan: ReproductionPlan) -> None:
        """Say how many runs are left, and how long they take."""
        workers = min(self.options.at_once() or 1, max(len(plan.jobs), 1))
        begun = f" ({plan.n_begun} of them begun)" if plan.n_begun else ""
        time = f", about {in_words(plan.seconds / workers)} with {workers} at a time" if plan.jobs else ""
        self.options.screen.say(
            f"Budget {self.budget}: {plan.n_done} runs are done, {len(plan.jobs)} are left{begun}{time}."
        )

    def _finish(self, recipes: list[Recipe], plan: ReproductionPlan, skipped: list[str]) -> Reproduction:
        """Write and show what came out."""
        request, screen = self.request, self.options.screen
        # What is left to do is done here, whatever devices a cluster has.
        result = outcome.write(recipes, plan.cells, request.look(), request.folder, self.options.here())
        screen.show(result, [*skipped, *result.remarks])
        screen.say(f"Saved to {request.folder}")
        return result


def say_strange(index: RunIndex, screen: Screen) -> None:
    """Name the runs that do not count."""
    for folder in index.strange:
        screen.say(f"The run in {folder} has settings that this version does not know; it does not count.")


def _skipped(recipes: list[Recipe], plan: ReproductionPlan, missing: dict[str, str]) -> list[str]:
    """Return a line for each recipe that is skipped, in whole or in part, and one for each reason."""
    lines = []
    for recipe in recipes:
        skipped = [one for one in plan.skipped if one.recipe is recipe]
        if skipped:
            n_cells = sum(one.recipe is recipe for one in plan.cells)
            part = f"{len(skipped)} of {n_cells} cells " if len(skipped) < n_cells else ""
            names = dict.fromkeys(one.config.benchmark_name for one in skipped if one.config)
            lines.append(f"{recipe.name}: {part}skipped: no data for {' and '.join(names)}")
    reasons: dict[str, list[str]] = {}
    for benchmark, reason in missing.items():
        reasons.setdefault(reason, []).append(benchmark)
    return lines + [f"{' and '.join(names)}: {reason}" for reason, names in reasons.items()]
