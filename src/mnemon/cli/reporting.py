"""The command that writes a report, and what the commands that train say of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mnemon.cli.app import say
from mnemon.cli.options import Computing


def report(
    *runs: Annotated[Path, Parameter(name="RUN")],
    out: Path | None = None,
    open: Annotated[bool, Parameter(negative="")] = False,
) -> None:
    """Write a page with figures and tables about runs: one HTML file that needs no network.

    `mnemon report runs/one runs/two` puts several experiments side by side.

    Parameters
    ----------
    runs
        Folders of runs, of several seeds or of comparisons; runs may lie anywhere below them.
    out
        File to write. Default: report.html in the folder, or here if there are several.
    open
        Show it in the browser.
    """
    from mnemon.experiments.older_records import complete
    from mnemon.experiments.reproduce.recipe import background
    from mnemon.results.report.write import write_report

    path = write_report(runs, out, background, complete)
    say(f"Written: {path}")
    if open:
        show_in_browser(path)


def written_report(folder: Path, computing: Computing) -> Path | None:
    """Write the report of a folder that was just trained in; without the packages for it, say how to get them."""
    from mnemon.experiments.older_records import complete
    from mnemon.experiments.reproduce.recipe import background
    from mnemon.results.report.write import missing_packages, write_report

    if missing_packages():
        say("For a page with figures beside the tables: pip install 'mnemon[report]'")
        return None
    _keep_maps(folder, computing)
    return write_report([folder], None, background, complete)


def _keep_maps(folder: Path, computing: Computing) -> None:
    """Make the maps of two-dimensional embedding spaces that the report shows."""
    from mnemon.experiments.artifacts.embedding_maps import keep_maps, without_map

    if runs := without_map(folder):
        say("Mapping the embedding space for the report …")
        here = computing if computing.on is None else replace(computing, on=None, device="auto")
        keep_maps(runs, here.compute())


def show_in_browser(path: Path) -> None:
    """Open a file in the browser; where there is none, say which file it is."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        say(f"There is no browser here; open {path.resolve()} in one.")
