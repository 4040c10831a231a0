"""What runs leave at their end: their tables, the numbers in them, and a page with figures."""

from __future__ import annotations

from mnemon import extras
from mnemon.experiments.api.options import Options
from mnemon.experiments.api.report import report
from mnemon.experiments.artifacts.embedding_maps import keep_maps, without_map
from mnemon.experiments.upload import Upload
from mnemon.results import samples
from mnemon.results.comparison import ComparisonTable
from mnemon.results.study import Study
from mnemon.whole_files import write_text

SUMMARY = "summary.txt"


def finish(result: Study | ComparisonTable, options: Options, upload: Upload) -> None:
    """Show what came out, write it beside the runs, as a page too, and copy all of it to the URL if there is one."""
    screen = options.screen
    screen.show(result)
    write_text(result.folder / SUMMARY, str(result))
    if isinstance(result, ComparisonTable):
        result.write_numbers()
    else:
        _say_sheets(result, options)
    if options.report:
        _write_page(result, options)
    screen.saved(result.folder)
    upload.send(result.folder, screen.say)


def _say_sheets(study: Study, options: Options) -> None:
    """Say where the pictures of what was replayed are."""
    for record in study.records:
        sheet = (record.folder or study.folder) / samples.FOLDER / samples.SHEET
        if sheet.exists():
            options.screen.say(f"Replayed images (left: after the task, right: after the last task): {sheet}")


def _write_page(result: Study | ComparisonTable, options: Options) -> None:
    """Write the report, and before it the maps of two-dimensional embedding spaces that it shows."""
    if extras.missing("report"):
        options.screen.say("For a page with figures beside the tables: pip install 'mnemon[report]'")
        return
    if runs := without_map(result):
        options.screen.say("Mapping the embedding space for the report …")
        keep_maps(runs, options.here())
    report(result)
