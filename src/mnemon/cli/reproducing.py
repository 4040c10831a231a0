"""The command that runs the paper's tables and figures again."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import say, say_item
from mnemon.cli.options import DEFAULT_COMPUTING, Computing, Whole
from mnemon.errors import UsageError, choose

if TYPE_CHECKING:
    from mnemon.experiments.reproduce.recipe import Recipe

OUT = "runs/reproduce"


@Parameter(name="*")
@dataclass(frozen=True)
class Reproduction:
    """What can be told of a reproduction."""

    only: Annotated[list[str] | None, Parameter(consume_multiple=False, negative="")] = None
    """Only cells with a matching name, such as "S-CL3 HNET+R" or the pattern "S-*". Can be repeated."""
    budget: str | None = None
    """paper (its own protocol), short (about an hour on two cores for each; the default) or smoke (about a minute for
    each, on the embedded digits)."""
    seeds: Whole | None = None
    """Number of seeds, starting at 0. Default: as many as in the paper, or one for the smaller budgets."""
    out: str = OUT
    """Folder of the runs, tables and figures; what is in it is not run again."""
    also: Annotated[list[Path] | None, Parameter(consume_multiple=False, negative="")] = None
    """Another folder with runs to use; it is only read. Can be repeated."""
    computing: Computing = DEFAULT_COMPUTING


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
    if keep is not None and report is None:
        raise UsageError("--keep goes with --report: it keeps the records that the report is made from.")
    if list_ or not (name or report):
        _list(name, options)
    elif report is not None:
        _write_document(report, name, options, keep)
    else:
        import mnemon

        mnemon.reproduce(
            name,
            only=options.only or (),
            budget=options.budget,
            seeds=options.seeds,
            out=options.out,
            also=options.also or (),
            **options.computing.keywords(),
        )
    return 0


def _write_document(path: Path, names: tuple[str, ...], options: Reproduction, keep: Path | None) -> None:
    """Write what was reproduced so far into a Markdown file."""
    from mnemon.cli.screen import ShellScreen
    from mnemon.experiments.api.reproduce import say_strange
    from mnemon.experiments.reproduce import document
    from mnemon.experiments.reproduce.run_index import look

    index = look(Path(options.out), options.also or ())
    say_strange(index, ShellScreen())
    said = document.write(path, _recipes(names, options), index, options.budget, keep)
    say(f"{said}. Saved to {path}")


def _recipes(names: tuple[str, ...], options: Reproduction) -> list[Recipe]:
    from mnemon.experiments.reproduce.recipe import BUDGETS, chosen

    recipes = chosen(names, options.only or ())
    if options.budget is not None:
        choose("budget", options.budget, BUDGETS)
    return recipes


def _list(names: tuple[str, ...], options: Reproduction) -> None:
    """Say of each table and figure what it is and what it costs."""
    from mnemon.experiments.cost import in_words
    from mnemon.experiments.reproduce.recipe import ALL, BUDGETS, SHORT, waits

    recipes = _recipes(names, options)
    for recipe in recipes:
        costs = {budget: recipe.seconds(budget, options.seeds) for budget in BUDGETS}
        known = ", ".join(f"{budget} {in_words(cost)}" for budget, cost in costs.items() if cost)
        more = f" It is {waits(recipe)}." if recipe.waits_for else ""
        say_item(recipe.name, f"{recipe.about} {recipe.where}. Time on one core: {known or 'not known yet'}.{more}")
    one = f"mnemon reproduce {recipes[0].name} --budget {SHORT}"
    say(f"Nothing was started. To start one: {one} (all of them: mnemon reproduce {ALL}).")
