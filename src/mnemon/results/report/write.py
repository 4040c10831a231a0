"""Runs as one page: an HTML file that needs no network, with tables that need no JavaScript.

The page is made for a person with a browser, years later: figures, their numbers, every setting.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from importlib import metadata
from pathlib import Path

import mnemon
from mnemon import extras
from mnemon.errors import UsageError
from mnemon.printable import printable
from mnemon.results.groups import Experiment, Group, Reportable, folder_of, gather
from mnemon.results.report.experiment import Section, alarms_of
from mnemon.results.report.page import Charts, Pictures
from mnemon.results.report.side_by_side import Board
from mnemon.results.runs import Complete, as_it_is
from mnemon.results.verdict import MARGIN, UNKNOWN, Background
from mnemon.whole_files import is_there, write_text

FILE = "report.html"
MOST_DRAWN = 12
"""Experiments with figures of their own; of more, the tables."""
MOST_DETAILED = 60
"""Experiments with tables of their own; of more, a row among the others."""
MOST_OPEN = 3
"""Experiments that are unfolded when the page opens."""
MOST_ROWS = 20
"""Rows of a table that is unfolded."""

TEMPLATES = Path(__file__).parent / "templates"


def write_report(
    items: Sequence[Reportable],
    out: Path | None = None,
    background: Callable[[str], Background] = lambda preset: UNKNOWN,
    complete: Complete = as_it_is,
) -> Path:
    """Write a page about runs, studies and comparisons, or the folders of them; return its path.

    It is `out`, or report.html in the folder, or here if there are several. `background` tells what is known of the
    number that was published for a preset, `complete` which settings older records lack (see `read_runs`).
    """
    if not items:
        raise UsageError("Name the folder of a run, of several seeds or of a comparison: mnemon report RUN.")
    extras.require("report", "A report needs")
    path = _path(items, out)
    write_text(path, page(gather(items, complete), background))
    return path


def _path(items: Sequence[Reportable], out: Path | None) -> Path:
    if out is None:
        return (folder_of(items[0]) if len(items) == 1 else Path()) / FILE
    if is_there(out) and out.is_dir():
        return out / FILE
    if out.suffix.lower() not in (".html", ".htm"):
        raise UsageError(f"A report is an HTML file: --out must be a folder or end in .html, not {out}.")
    if not is_there(out.parent):
        raise UsageError(f"There is no folder {out.parent} for {out.name}.")
    return out


def page(groups: Sequence[Group], background: Callable[[str], Background] = lambda preset: UNKNOWN) -> str:
    """Return the page about groups of experiments."""
    import jinja2

    charts = Charts()
    experiments = [experiment for group in groups for experiment in group.experiments]
    pictures = Pictures()
    drawn = {id(experiment) for experiment in experiments[:MOST_DRAWN]}
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(TEMPLATES),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        finalize=_clean,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    sections = [
        Section(f"experiment-{i + 1}", e, charts, pictures, id(e) in drawn, background(e.first.preset))
        for i, e in enumerate(experiments)
    ]
    boards = [Board(group, charts) for group in groups if len(group.experiments) > 1]
    return environment.get_template("report.html").render(
        title=_title(experiments),
        sections=sections,
        boards=boards,
        units=" and ".join(dict.fromkeys(section.unit for section in sections if section.record.published)),
        margin=MARGIN,
        alarms=alarms_of(experiments),
        n_runs=sum(len(experiment.runs) for experiment in experiments),
        most_drawn=MOST_DRAWN,
        most_detailed=MOST_DETAILED,
        most_open=MOST_OPEN,
        most_rows=MOST_ROWS,
        charts=charts.specs,
        bundle=_bundle() if charts.specs else "",
        version=mnemon.__version__,
    )


def _clean(value: object) -> object:
    """Clean what records hold; what was made by templates is markup, and not a plain text."""
    return printable(value) if type(value) is str else value


def _title(experiments: Sequence[Experiment]) -> str:
    names = [experiment.label for experiment in experiments]
    return names[0] if len(names) == 1 else f"{names[0]} and {len(names) - 1} more"


@functools.cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and vega-embed in one piece; kept in the cache, for it takes seconds to make."""
    import altair
    import pooch
    import vl_convert

    version = ".".join(altair.SCHEMA_VERSION.removeprefix("v").split(".")[:2])
    kept = Path(pooch.os_cache("mnemon")) / f"vega-lite-{version}-{metadata.version('vl-convert-python')}.js"
    try:
        return kept.read_text(encoding="utf-8")
    except (OSError, ValueError):
        made = vl_convert.javascript_bundle(vl_version=version)  # type: ignore[call-arg]  # a snippet is optional
        bundle = made.replace("</script", "<\\/script")
    try:
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, bundle)
    except (OSError, UsageError):  # a cache that cannot be written only costs time
        pass
    return bundle
