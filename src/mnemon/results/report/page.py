"""What a page is made of: charts, pictures, tables, and how numbers are written in them."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from mnemon.results.metrics import mean_and_sem
from mnemon.results.record import RunRecord
from mnemon.results.terminal.tables import format_spread

MOST_PICTURES = 1_000_000
"""Bytes of generated images on a page."""
NOTHING = "·"
"""Shown where there is no number."""


@dataclass
class Figure:
    """A chart with its caption, and in words what is to be seen."""

    id: str
    caption: str
    height: int


class Charts:
    """The charts of a page, each as wide as its place."""

    def __init__(self) -> None:
        self.specs: dict[str, str] = {}

    def add(self, chart: Any, caption: str) -> Figure:
        spec = chart.to_dict(validate=False)
        spec |= {"width": "container", "autosize": {"type": "fit-x", "contains": "padding"}, "description": caption}
        spec.pop("$schema", None)
        name = f"chart-{len(self.specs) + 1}"
        self.specs[name] = json.dumps(spec, separators=(",", ":")).replace("<", "\\u003c")
        return Figure(name, caption, int(spec.get("height", 300)))


class Pictures:
    """The generated images of a page, up to a number of bytes."""

    def __init__(self) -> None:
        self.left = MOST_PICTURES

    def of(self, path: Path) -> str:
        """Return a file as a data URI; nothing, if it is too large by now."""
        content = path.read_bytes()
        if len(content) > self.left:
            return ""
        self.left -= len(content)
        return f"data:image/png;base64,{base64.b64encode(content).decode()}"


@dataclass
class Table:
    """Rows under headings; the first cell of a row is its head."""

    caption: str
    columns: Sequence[str]
    rows: list[list[str]]
    numeric: bool = True


@dataclass
class Sheet:
    """A sheet of generated images, or where it is if it was too large for the page."""

    source: str
    path: str
    about: str
    columns: int


def show_spread(values: Iterable[float], record: RunRecord) -> str:
    """Show mean ± SEM of the values that are there, in the unit of a record."""
    there = [value for value in values if not math.isnan(value)]
    return format_spread(there, record) if there else NOTHING


def show_spread_as(values: Iterable[float], form: str) -> str:
    """Show mean ± SEM of the values that are there, the mean in a form such as .1f."""
    there = [value for value in values if not math.isnan(value)]
    if not there:
        return NOTHING
    mean, sem = mean_and_sem(there)
    return f"{mean:{form}}" + ("" if math.isnan(sem) else f" ± {sem:.2g}")
