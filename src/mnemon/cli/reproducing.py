"""The command that runs the paper's tables and figures again."""

from __future__ import annotations

import shlex
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import console, say, say_item
from mnemon.cli.options import DEFAULT_COMPUTING, Computing, Whole, at_least_one, check_alone, cores, given
from mnemon.cli.running import run_with_progress
from mnemon.errors import DataError, UsageError, choose
from mnemon.experiments.upload import is_url

if TYPE_CHECKING:
    from mnemon.experiments.reproduce.plan import ReproductionPlan
    from mnemon.experiments.reproduce.recipe import Recipe
    from mnemon.experiments.reproduce.run_index import RunIndex
    from mnemon.experiments.run import Compute

OUT = "runs/reproduce"


@Parameter(name="*")
@dataclass(frozen=True)
class Reproduction:
    """What can be told of a reproduction."""

    only: Annotated[list[str] | None, Parameter(consume_multiple=False, negative="")] = None
    """Only the cells whose name fits: "S-CL3 HNET+R", say, or a pattern such as "S-*"; as often as you like."""
    budget: str | None = None
    """paper (its own protocol), short (about an hour on two cores for each; the default) or smoke (about a minute for
    each, on the embedded digits)."""
    seeds: Whole | None = None
    """Number of seeds, from 0 on. Default: as many as the paper averaged over, for the smaller budgets one."""
    out: str = OUT
    """Folder of the runs, tables and figures; what is in it is not run again."""
    also: Annotated[list[Path] | None, Parameter(consume_multiple=False, negative="")] = None
    """Another folder with runs that count, as often as you like; it is only read."""
    computing: Computing = DEFAULT_COMPUTING

    def check(self) -> None:
        """Refuse what makes no sense."""
        at_least_one("--seeds", self.seeds)
        self.computing.check()
        if is_url(self.out):
            raise UsageError(
                f"--out {self.out} is a URL: `mnemon reproduce` goes on with what is in a folder. Name one, and copy "
                "it when all is done."
            )

    @property
    def folder(self) -> Path:
        """The folder of `out`."""
        return Path(self.out)

    def command(self, names: tuple[str, ...]) -> str:
        """Return what to type to go on."""
        words = given(
            *(("--only", pattern, None) for pattern in self.only or ()),
            ("--budget", self.budget, None),
            ("--seeds", self.seeds, None),
            ("--out", self.out, OUT),
            *(("--also", folder, None) for folder in self.also or ()),
            ("--workers", self.computing.workers, None),
        )
        return shlex.join(["mnemon", "reproduce", *names, *words, *self.computing.words()])


DEFAULT_REPRODUCTION = Reproduction()


def reproduce(
    *name: Annotated[str, Parameter(name="NAME")],
    list_: Annotated[bool, Parameter(name="--list", negative="")] = False,
    report: Path | None = None,
    keep: Path | None = None,
    options: Reproduction = DEFAULT_REPRODUCTION,
) -> int:
    """Run tables and figures of the paper again, and show what came out beside what was published.

    Without NAME it starts nothing and lists all tables and figures: what each is and what it costs. Runs that are
    in the output folder already are not run again, and runs that were stopped are resumed. Ctrl-C saves and says how
    to resume; nothing is lost.

    Parameters
    ----------
    name
        Tables and figures, as many as you like, or the word all. What lacks its data is skipped, with the reason.
    list_
        Only list the tables and figures that are named, or all: what each is and what it costs at each budget.
    report
        Run nothing, and write the verdicts of what was run so far into this Markdown file.
    keep
        With --report: write the records of the runs that it is made from, without weights, into this folder; with
        --also FOLDER the report can then be written again when the runs are gone.
    """
    check_alone("reproduce")
    options.check()
    if keep is not None and report is None:
        raise UsageError("--keep goes with --report: it keeps the records that the report is made from.")

    from mnemon.experiments.reproduce.recipe import BUDGETS, SHORT, chosen

    recipes = chosen(name, options.only or ())
    if options.budget is not None:
        choose("budget", options.budget, BUDGETS)
    if list_ or not (name or report):
        _list(recipes, options.seeds)
        return 0

    from mnemon.experiments.reproduce.run_index import look

    index = look(options.folder, options.also or ())
    for folder in index.strange:
        say(f"The run in {folder} has settings that this version does not know; it does not count.")
    if report is not None:
        from mnemon.experiments.reproduce import document

        say(f"{document.write(report, recipes, index, options.budget, keep)}. Written: {report}")
        return 0
    return _reproduce(recipes, options.budget or SHORT, index, options, options.command(name))


def _list(recipes: list[Recipe], seeds: int | None) -> None:
    from mnemon.experiments.cost import in_words
    from mnemon.experiments.reproduce.recipe import ALL, BUDGETS, SHORT

    for recipe in recipes:
        costs = {budget: recipe.seconds(budget, seeds) for budget in BUDGETS}
        known = ", ".join(f"{budget} {in_words(cost)}" for budget, cost in costs.items() if cost)
        waits = f" It is {_waits(recipe)}." if recipe.waits_for else ""
        say_item(recipe.name, f"{recipe.about} {recipe.where}. Time on one core: {known or 'not known yet'}.{waits}")
    one = f"mnemon reproduce {recipes[0].name} --budget {SHORT}"
    say(f"Nothing was started. To start one: {one} (all of them: mnemon reproduce {ALL}).")


def _waits(recipe: Recipe) -> str:
    return f"waiting for its network: there is no preset {', '.join(recipe.waits_for)} yet"


def _reproduce(recipes: list[Recipe], budget: str, index: RunIndex, options: Reproduction, go_on: str) -> int:
    from mnemon.benchmarks.sources import check_named_folder
    from mnemon.experiments.reproduce.plan import make_folders, make_plan, missing_data, wanted
    from mnemon.experiments.study import StudyError

    computing, compute = options.computing, options.computing.compute()
    check_named_folder(computing.data)
    cells = wanted(recipes, budget)
    _announce(recipes, budget, options.seeds)
    plan = make_plan(cells, options.seeds, options.folder, index)
    missing = missing_data(plan.jobs, compute)
    plan = make_plan(cells, options.seeds, options.folder, index, missing)
    there = [recipe for recipe in recipes if plan.can_show(recipe, index)]
    if not there:
        raise DataError(" ".join(dict.fromkeys(missing.values())))
    skipped = _skipped(recipes, plan, missing)
    for remark in skipped:
        say(remark)
    _say_left(plan, budget, computing)
    make_folders(plan.jobs)
    try:
        if plan.jobs and run_with_progress(plan.jobs, compute, go_on, computing):
            return 130
    except StudyError:  # the other runs are finished
        _finish(there, plan, options, compute, skipped)
        raise
    _finish(there, plan, options, compute, skipped)
    return 0


def _announce(recipes: list[Recipe], budget: str, seeds: int | None) -> None:
    """Say what each recipe costs at a budget, before anything is run."""
    from mnemon.experiments.cost import in_words

    for recipe in recipes:
        there = [cell.variants[budget] for cell in recipe.cells if budget in cell.variants]
        if not there:
            say(f"{recipe.name}: not part of the budget {budget}")
        elif any(variant.exists for variant in there):
            n, cost = len(dict.fromkeys(there)), in_words(recipe.seconds(budget, seeds))
            say(f"{recipe.name}: {n} {'run' if n == 1 else 'runs'} per seed, about {cost} on one core")
        if any(not variant.exists for variant in there):
            say(f"{recipe.name}: {_waits(recipe)}")


def _say_left(plan: ReproductionPlan, budget: str, computing: Computing) -> None:
    """Say how many runs are left, and how long they take."""
    from mnemon.experiments.cost import in_words

    workers = min(computing.workers or cores(), max(len(plan.jobs), 1))
    going_on = f" ({plan.n_begun} of them begun)" if plan.n_begun else ""
    time = f", about {in_words(plan.seconds / workers)} with {workers} at a time" if plan.jobs else ""
    say(f"Budget {budget}: {plan.n_done} runs are there, {len(plan.jobs)} are left{going_on}{time}.")


def _skipped(recipes: list[Recipe], plan: ReproductionPlan, missing: dict[str, str]) -> list[str]:
    """Return a line for each recipe that is skipped, in whole or in part, and one for each reason."""
    lines = []
    for recipe in recipes:
        skipped = [one for one in plan.skipped if one.recipe is recipe]
        if skipped:
            n_cells = sum(one.recipe is recipe for one in plan.cells)
            part = f"{len(skipped)} of {n_cells} cells " if len(skipped) < n_cells else ""
            names = dict.fromkeys(one.config.benchmark_name for one in skipped if one.config)
            lines.append(f"{recipe.name}: {part}skipped, there are no data for {' and '.join(names)}")
    reasons: dict[str, list[str]] = {}
    for benchmark, reason in missing.items():
        reasons.setdefault(reason, []).append(benchmark)
    return lines + [f"{' and '.join(names)}: {reason}" for reason, names in reasons.items()]


def _finish(
    recipes: list[Recipe], plan: ReproductionPlan, options: Reproduction, compute: Compute, skipped: list[str]
) -> None:
    from mnemon.experiments.reproduce import outcome
    from mnemon.experiments.reproduce.run_index import look

    if options.computing.on is not None:  # what is left to do is done here, whatever devices the cluster has
        compute = replace(compute, device="auto")
    index = look(options.folder, options.also or ())
    shown, remarks = outcome.write(recipes, plan.cells, index, options.folder, compute)
    console().print(shown)
    for remark in (*skipped, *remarks):
        say(remark)
    say(f"Kept in {options.out}: runs/, and for each recipe {outcome.TABLE}, {outcome.NUMBERS} and its figures.")
