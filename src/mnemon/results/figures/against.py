"""Accuracy against a setting: a compression ratio, a strength, a number of tasks."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field

from mnemon.errors import UsageError
from mnemon.results.figures.style import Chart, altair, band, colour, dash, rows, shape, style_chart, value_axis


@dataclass(frozen=True)
class Point:
    """A mean at some x, with its standard error if there is one."""

    x: float
    mean: float
    sem: float = math.nan


@dataclass(frozen=True)
class Series:
    """What one method came to at several values of x."""

    label: str
    points: Sequence[Point]
    published: Sequence[Point] = field(default=())
    """The same as it was published, drawn as hollow diamonds."""


def accuracy_against(
    series: Sequence[Series], x_title: str, y_title: str = "Accuracy (%)", *, log: bool = False
) -> Chart:
    """Draw series against x with bands of SEM; `log` for a logarithmic axis of x."""
    alt, labels = altair(), [one.label for one in series]
    if log and any(point.x <= 0 for one in series for point in (*one.points, *one.published)):
        raise UsageError(f"A logarithmic axis cannot show values of {x_title} that are 0 or negative.")
    scale = alt.Scale(type="log", nice=False, padding=10) if log else alt.Scale(zero=False, padding=10)
    x = alt.X("x:Q", title=x_title, scale=scale, axis=alt.Axis(grid=False, labelOverlap=True, format="~g"))
    y = value_axis(y_title)
    base = alt.Chart(rows(_rows(series, "points"))).encode(x=x, color=colour(labels))
    tooltip = [
        alt.Tooltip("label:N", title="series"),
        alt.Tooltip("x:Q", title=x_title, format=".4g"),
        alt.Tooltip("mean:Q", title=y_title, format=".4g"),
        alt.Tooltip("sem:Q", title="SEM", format=".2g"),
    ]
    lines = base.mark_line(strokeWidth=2).encode(y=y, strokeDash=dash(labels))
    dots = base.mark_point(filled=True, size=55, opacity=1).encode(y=y, shape=shape(labels), tooltip=tooltip)
    chart = band(base) + lines + dots
    if not any(one.published for one in series):
        return style_chart(chart)
    base = alt.Chart(rows(_rows(series, "published"))).encode(x=x, color=colour(labels))
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q")
    diamonds = base.mark_point(shape="diamond", size=130, filled=False, strokeWidth=2).encode(
        y=y, tooltip=[*tooltip[:2], alt.Tooltip("mean:Q", title="published"), alt.Tooltip("sem:Q", title="±")]
    )
    return style_chart(chart + bars + diamonds, "hollow diamonds: published")


def _rows(series: Sequence[Series], which: str) -> list[dict]:
    found = []
    for one in series:
        for point in sorted(getattr(one, which), key=lambda point: point.x):
            margin = 0.0 if math.isnan(point.sem) else point.sem
            low, high = point.mean - margin, point.mean + margin
            found.append(
                {"label": one.label, "x": point.x, "mean": point.mean, "sem": point.sem, "low": low, "high": high}
            )
    return found
