"""The command that writes a report."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from mnemon.cli.app import say


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
    import mnemon

    path = mnemon.report(runs, out)
    say(f"Saved to {path}")
    if open:
        show_in_browser(path)


def show_in_browser(path: Path) -> None:
    """Open a file in the browser; where there is none, say which file it is."""
    import webbrowser

    if not webbrowser.open(path.resolve().as_uri()):
        say(f"There is no browser here; open {path.resolve()} in one.")
