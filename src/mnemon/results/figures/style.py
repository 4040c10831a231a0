"""How all figures look: colours that everyone can tell apart, sizes, and the one place that imports Altair."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from mnemon import extras
from mnemon.results.metrics import mean_and_sem
from mnemon.results.record import RunRecord

Chart = Any
"""A chart of Altair, whose types are not known before it is imported."""

COLOURS = ("#0072B2", "#E69F00", "#009E73", "#D55E00", "#CC79A7", "#56B4E9", "#8C8C8C")
"""Okabe and Ito's colours without black and yellow, which vanish on dark and on white paper; grey in their place."""
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")
HEAT = "viridis"
WIDTH, HEIGHT = 460, 260
LABEL, TITLE = 12, 13
MOST_SERIES = 8
"""Lines in one figure; of more tasks some are drawn, spread evenly."""


def altair() -> Any:
    """Return Altair, or say how to install it."""
    extras.require("report", "Figures need", "altair")
    import altair

    return altair


def style_chart(chart: Chart, title: str = "", height: int = HEIGHT, width: int = WIDTH) -> Chart:
    """Give a chart its size, its title and its looks."""
    return configure_chart(chart.properties(width=width, height=height, **({"title": title} if title else {})))


def configure_chart(chart: Chart) -> Chart:
    """Give a chart labels that one can read."""
    # One call: every further one would copy all data once more.
    return chart.configure(
        axis={"labelFontSize": LABEL, "titleFontSize": TITLE, "titleFontWeight": "normal"},
        legend={
            "labelFontSize": LABEL, "titleFontSize": LABEL, "titleFontWeight": "normal", "labelLimit": 280,
            "orient": "bottom", "columns": 2, "symbolOpacity": 1,
        },
        title={"fontSize": TITLE, "anchor": "start", "fontWeight": "normal"},
        view={"stroke": None},
    )  # fmt: skip


def rows(values: Iterable[Mapping[str, Any]]) -> Any:
    """Return rows as a chart's data, rounded to what can be seen, NaN as nothing."""
    return altair().InlineData(values=[{key: _short(value) for key, value in row.items()} for row in values])


def _short(value: Any) -> Any:
    if not isinstance(value, float):
        return value
    return float(f"{value:.5g}") if math.isfinite(value) else None


def colour(labels: Sequence[str], title: str | None = None, field: str = "label") -> Any:
    """Return an encoding that gives each label its colour, in order."""
    alt = altair()
    scale = alt.Scale(domain=list(labels), range=_cycle(COLOURS, len(labels)))
    return alt.Color(f"{field}:N", scale=scale, sort=None, title=title, legend=alt.Legend() if any(labels) else None)


def dash(labels: Sequence[str], title: str | None = None, field: str = "label") -> Any:
    """Return an encoding that tells labels apart without colour."""
    alt = altair()
    legend = alt.Legend() if any(labels) else None
    scale = alt.Scale(domain=list(labels), range=_cycle(DASHES, len(labels)))
    return alt.StrokeDash(f"{field}:N", scale=scale, sort=None, title=title, legend=legend)


def shape(labels: Sequence[str], title: str | None = None, field: str = "label") -> Any:
    """Return an encoding that tells points apart without colour."""
    alt = altair()
    legend = alt.Legend() if any(labels) else None
    scale = alt.Scale(domain=list(labels), range=_cycle(SHAPES, len(labels)))
    return alt.Shape(f"{field}:N", scale=scale, sort=None, title=title, legend=legend)


def _cycle(values: Sequence[Any], n: int) -> list[Any]:
    return [values[i % len(values)] for i in range(n)]


def spread_row(values: Iterable[float], **facts: Any) -> dict[str, Any]:
    """Return a row with mean, SEM, band and number of the values that are there."""
    there = [float(value) for value in values if not math.isnan(value)]
    mean, sem = mean_and_sem(there) if there else (math.nan, math.nan)
    band = 0.0 if math.isnan(sem) else sem
    return {**facts, "mean": mean, "sem": sem, "low": mean - band, "high": mean + band, "n": len(there)}


def matrices(records: Sequence[RunRecord]) -> np.ndarray:
    """Return the accuracy matrices of runs [run, after, task]."""
    return np.array([record.accuracy.values for record in records])


def pick_evenly(n: int, most: int) -> list[int]:
    """Return at most so many of n numbers, evenly spread, the first and the last among them."""
    if n <= most:
        return list(range(n))
    return sorted({round(i * (n - 1) / (most - 1)) for i in range(most)})


def task_axis(n_tasks: int, title: str, field: str = "task") -> Any:
    """Return an x axis over the numbers of tasks, with whole ticks."""
    alt = altair()
    ticks = [j + 1 for j in pick_evenly(n_tasks, 10)]
    scale = alt.Scale(domain=[1, max(n_tasks, 2)], nice=False, padding=12)
    return alt.X(f"{field}:Q", title=title, scale=scale, axis=alt.Axis(values=ticks, format="d", grid=False))


def value_axis(title: str, field: str = "mean", **scale: Any) -> Any:
    """Return a y axis that need not begin at 0."""
    alt = altair()
    return alt.Y(f"{field}:Q", title=title, scale=alt.Scale(zero=False, nice=True, **scale))


def band(base: Chart) -> Chart:
    """Return the band of one SEM around a line."""
    alt = altair()
    return base.mark_area(opacity=0.2).encode(y=alt.Y("low:Q"), y2="high:Q")
