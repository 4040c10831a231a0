"""The command that shows what came out of runs."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mnemon.cli.app import console


def show(run_: Annotated[Path, Parameter(name="RUN")], /) -> None:
    """Show a run, or all seeds below a folder: tasks, metrics, accuracy matrix; of a comparison or a sweep its table.

    Parameters
    ----------
    run_
        Folder of a run, of several seeds, of a comparison or of a sweep.
    """
    from mnemon.experiments.older_records import complete
    from mnemon.results.comparison import ComparisonTable, is_comparison
    from mnemon.results.study import Study
    from mnemon.results.sweep import SweepResult, is_sweep

    if is_sweep(run_):
        result = SweepResult.read(run_)
        console().print(result)
        for remark in result.remarks:
            console().print(remark, soft_wrap=True)
        return
    console().print(ComparisonTable.read(run_, complete) if is_comparison(run_) else Study.read(run_, complete))
