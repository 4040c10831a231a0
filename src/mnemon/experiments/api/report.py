"""`mnemon.report`: a page about runs, studies and comparisons."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path

from mnemon.experiments.older_records import complete
from mnemon.experiments.reproduce.recipe import background
from mnemon.results.comparison import ComparisonTable
from mnemon.results.groups import Reportable
from mnemon.results.record import RunRecord
from mnemon.results.report.write import write_report
from mnemon.results.study import Study

Item = str | PathLike[str] | RunRecord | Study | ComparisonTable
"""What can be put into a report: the path of a folder, or what was read from one."""


def report(items: Item | Sequence[Item], path: str | PathLike[str] | None = None) -> Path:
    """Write a page with figures and tables about runs: one HTML file that needs no network.

    Args:
        items: Records, studies, comparisons or folders of them; runs may lie anywhere below a folder. Several are
            put side by side.
        path: The file to write, or a folder for it. Default: report.html in the folder of the item, or here if there
            are several.

    Returns:
        The path of the page.

    Raises:
        UsageError: If a package for it is missing (extra `report`), or if there is nothing to report.

    Example:
        >>> record = mnemon.run("toy", settings={"steps": 5}, report=False, quiet=True)
        >>> print(mnemon.report(record, "page.html"))
        page.html
    """
    several = [items] if isinstance(items, str | PathLike | RunRecord | Study | ComparisonTable) else list(items)
    found: list[Reportable] = [Path(one) if isinstance(one, str | PathLike) else one for one in several]
    return write_report(found, None if path is None else Path(path), background, complete)
