"""The commands that show what is there: runs, presets, settings, data."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import console, say, say_item
from mnemon.cli.options import Options, Settings
from mnemon.cli.reporting import show_in_browser, written_report
from mnemon.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console


def show(run_: Annotated[Path, Parameter(name="RUN")], /) -> None:
    """Show a run, or all seeds below a folder: tasks, metrics, accuracy matrix; of a comparison or a sweep its table.

    Parameters
    ----------
    run_
        Folder of a run, of several seeds, of a comparison or of a sweep.
    """
    show_folder(run_, console())


def presets(*word: Annotated[str, Parameter(name="WORD")]) -> None:
    """List the presets: what each is, what it costs on one core, and the published number.

    `mnemon presets mnist replay` lists only those that have both words in their name or description.

    Parameters
    ----------
    word
        List only presets with this word in their name or description; as many words as you like. Default: all.
    """
    from mnemon.experiments.preset import DEFAULT, all_presets

    there = all_presets()
    fitting = [p for p in there if _holds(word, p.name, p.about)]
    if not fitting:
        raise UsageError(
            f"No preset has {_quoted(word)} in its name or description. `mnemon presets` lists all {len(there)}."
        )
    for p in fitting:
        published = f"; published: {p.published}" if p.published else ""
        beside = " (default)" if p.name == DEFAULT else ""
        say_item(p.name, f"{p.about} Time per seed: {p.cost}{published}", beside)


def show_settings(
    preset: str | None = None,
    /,
    *word: Annotated[str, Parameter(name="WORD")],
    set_: Settings = None,
) -> None:
    """List every setting of a preset with its value and what it means.

    `mnemon settings split-mnist embedding` lists only those that have the word in their name or explanation.

    Parameters
    ----------
    preset
        Name of a preset (see `mnemon presets`) or path of a TOML file like one. Default: split-digits.
    word
        List only settings with this word in their name or explanation; as many words as you like. Default: all.
    set_
        Change a setting, as in `mnemon run`.
    """
    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run_config import explained, is_setting, resolve

    try:
        found = load_preset(preset or DEFAULT)
    except UsageError as error:
        if preset is None or not is_setting(preset):
            raise
        remedy = f"A word to look for follows a preset: {shlex.join(['mnemon', 'settings', DEFAULT, preset])}"
        raise UsageError(f"{error} {remedy}") from error
    config = resolve(found, set_ or ())
    fitting = [one for one in explained(config) if _holds(word, one.path, one.meaning)]
    if not fitting:
        raise UsageError(
            f"No setting of {config.preset} has {_quoted(word)} in its name or explanation. "
            f"{shlex.join(['mnemon', 'settings', preset or DEFAULT])} lists all."
        )
    for one in fitting:
        say_item(one.path, one.meaning, f"  {one.value}")


def _holds(words: Sequence[str], *texts: str) -> bool:
    """Tell whether each word occurs in one of the texts."""
    return all(any(word.casefold() in text.casefold() for text in texts) for word in words)


def _quoted(words: Sequence[str]) -> str:
    return " and ".join(f"'{word}'" for word in words)


def data(*, data: Path | None = None) -> None:
    """Show the data sets: present or not, where, verified or not, and how to get them.

    Parameters
    ----------
    data
        Folder to look in first. Default: the environment variable MNEMON_DATA, then the cache.
    """
    from rich.table import Table

    from mnemon.benchmarks.sources import status

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("data set", "state", "where", "how to get it"):
        table.add_column(column, overflow="fold")
    for s in status(data):
        state = "verified" if s.verified else f"damaged: {s.problem}" if s.present else s.problem or "missing"
        table.add_row(s.name, state, str(s.where or "-"), s.how)
    console().print(table)


def finish(folder: Path, options: Options) -> None:
    """Show what came out, keep it beside the runs, as a page too, and say where everything is."""
    from mnemon.experiments.older_records import complete
    from mnemon.results import comparison, samples
    from mnemon.results.record import find_runs
    from mnemon.whole_files import write_text

    show_folder(folder, console())
    write_text(folder / "summary.txt", as_text(folder))
    report = "this report: summary.txt"
    if comparison.is_comparison(folder):
        comparison.write_numbers(folder, complete)
        report += f"; its numbers: {comparison.RUNS}, those of each task: {comparison.TASKS}"
    else:
        for path in find_runs(folder):
            if (sheet := path / samples.FOLDER / samples.SHEET).exists():
                say(f"What was replayed, right after each task and at the end: {sheet}")
    page = None if options.no_report else written_report(folder, options.computing)
    if page is not None:
        report += f"; with figures: {page.name}"
    say(f"Kept in {folder} ({report}); show it again: mnemon show {shlex.quote(str(folder))}")
    if page is not None and options.open:
        show_in_browser(page)


def show_folder(folder: Path, console: Console) -> None:
    """Show a run, the seeds of one, a comparison or a sweep."""
    from mnemon.experiments.older_records import complete
    from mnemon.results import comparison, sweep
    from mnemon.results.record import find_runs
    from mnemon.results.runs import read_runs
    from mnemon.results.tables import matrix_table, summary

    if sweep.is_sweep(folder):
        table, lines = sweep.shown_folder(folder)
        console.print(table)
        for line in lines:
            console.print(line, soft_wrap=True)
        return
    if comparison.is_comparison(folder):
        console.print(comparison.shown(folder, complete))
        return
    records = list(read_runs(find_runs(folder), complete).values())
    console.print(summary(records))
    if len(records) == 1:
        console.print(matrix_table(records[0]))


def as_text(folder: Path) -> str:
    """Return what is shown of a folder as plain text."""
    import io

    from mnemon.cli.terminal import Terminal

    text = io.StringIO()
    show_folder(folder, Terminal(file=text, width=120))
    return text.getvalue()
