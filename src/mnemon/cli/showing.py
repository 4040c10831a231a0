"""The command that shows what came out of runs, and what the commands that train show at the end."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import console, say
from mnemon.cli.options import RunOptions
from mnemon.cli.reporting import show_in_browser, written_report

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


def finish(folder: Path, options: RunOptions) -> None:
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
    from mnemon.results.terminal.tables import matrix_table, summary

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
