"""Figures as files."""

from __future__ import annotations

from pathlib import Path

from mnemon import extras
from mnemon.errors import UsageError, choose
from mnemon.results.figures.style import Chart
from mnemon.whole_files import replacing

ENDINGS = {".svg": "svg", ".png": "png", ".pdf": "pdf", ".json": "json"}
DOTS_PER_INCH = 200


def save(chart: Chart, path: str | Path) -> Path:
    """Write a figure in the format that its ending says (.svg, .png, .pdf, or .json: its Vega-Lite source)."""
    path = Path(path)
    form = choose("ending", path.suffix, ENDINGS)
    options = {"ppi": DOTS_PER_INCH} if form == "png" else {}
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as aside:
            if form == "json":
                aside.write_text(chart.to_json(indent=1), encoding="utf-8")
            else:
                extras.require("report", "Figures as files need", "vl_convert")
                chart.save(str(aside), format=form, engine="vl-convert", **options)
    except OSError as error:
        raise UsageError(f"Could not write {path}: {error}.") from error
    return path
