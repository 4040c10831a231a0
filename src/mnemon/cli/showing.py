"""The command that shows what came out of runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from mnemon.cli.app import console

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


def show_folder(folder: Path, console: Console) -> None:
    """Show a run, the seeds of one, a comparison or a sweep."""
    from mnemon.experiments.older_records import complete
    from mnemon.results.comparison import ComparisonTable, is_comparison
    from mnemon.results.study import Study
    from mnemon.results.sweep import SweepResult, is_sweep

    if is_sweep(folder):
        result = SweepResult.read(folder)
        console.print(result)
        for remark in result.remarks:
            console.print(remark, soft_wrap=True)
        return
    console.print(ComparisonTable.read(folder, complete) if is_comparison(folder) else Study.read(folder, complete))
