"""Methods side by side: what each remembers at the end, and task by task."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

from mnemon.results.figures.style import (
    LABEL,
    Chart,
    altair,
    colour,
    matrices,
    rows,
    shape,
    spread_row,
    style_chart,
    task_axis,
    value_axis,
)
from mnemon.results.published import Published, read
from mnemon.results.record import RunRecord
from mnemon.results.terminal.tables import check_same_experiment, names_over_seeds, unit


def methods_at_the_end(groups: Mapping[str, Sequence[RunRecord]]) -> Chart:
    """Draw the mean over tasks at the end, a row per method, with its SEM and the published value if there is one."""
    alt, labels = altair(), list(groups)
    first, points, marks = next(iter(groups.values()))[0], [], []
    for label, records in groups.items():
        check_same_experiment(records)
        points.append(spread_row([record.accuracy.final.value for record in records], label=label))
        if published := read(records[0].published):
            marks.append(_mark(label, published))
    y = alt.Y("label:N", title=None, sort=labels, axis=alt.Axis(labelLimit=180, grid=True))
    axis = alt.Axis(tickCount=5, labelOverlap=True)
    x = alt.X("mean:Q", title=f"{unit(first)} at the end", scale=alt.Scale(zero=False), axis=axis)
    base = alt.Chart(rows(point for point in points if point["n"])).encode(y=y, color=colour(labels).legend(None))
    chart = base.mark_rule(strokeWidth=2).encode(x=alt.X("low:Q"), x2="high:Q") + base.mark_point(
        filled=True, size=80, opacity=1
    ).encode(
        x=x,
        tooltip=[
            alt.Tooltip("label:N", title="method"),
            alt.Tooltip("mean:Q", title=unit(first), format=".4g"),
            alt.Tooltip("sem:Q", title="SEM", format=".2g"),
            alt.Tooltip("n:Q", title="seeds"),
        ],
    )
    if marks:
        base = alt.Chart(rows(marks)).encode(y=y)
        tooltip = [alt.Tooltip("label:N", title="method"), alt.Tooltip("mean:Q", title="published")]
        chart += base.mark_rule(strokeWidth=1).encode(x=alt.X("low:Q"), x2="high:Q")
        chart += base.mark_point(shape="diamond", size=110, filled=False, strokeWidth=1.5).encode(
            x=alt.X("mean:Q"), stroke=alt.value("#8C8C8C"), tooltip=tooltip
        )
    title = "hollow diamonds: published" if marks else ""
    return style_chart(chart, title, height=max(60, 2 * (LABEL + 1) * len(labels)))


def methods_per_task(
    groups: Mapping[str, Sequence[RunRecord]], published: Mapping[str, Published] | None = None
) -> Chart:
    """Draw every task at the end, a series per method, with SEM, and a line at each published mean over tasks.

    These are what the records say was published, unless they are given, by label.
    """
    alt, labels = altair(), list(groups)
    if published is None:
        found = {label: read(records[0].published) for label, records in groups.items()}
        published = {label: number for label, number in found.items() if number}
    first, points, n_tasks = next(iter(groups.values()))[0], [], 0
    for label, records in groups.items():
        check_same_experiment(records)
        values, names = matrices(records), names_over_seeds(records)
        n_tasks = max(n_tasks, len(names))
        points += [
            spread_row(values[:, -1, j], label=label, task=j + 1, name=names[j]) for j in range(values.shape[2])
        ]
    base = alt.Chart(rows(point for point in points if point["n"])).encode(
        x=task_axis(n_tasks, "task"), color=colour(labels)
    )
    tooltip = [
        alt.Tooltip("label:N", title="method"),
        alt.Tooltip("task:Q", title="task"),
        alt.Tooltip("name:N", title="named"),
        alt.Tooltip("mean:Q", title=unit(first), format=".4g"),
        alt.Tooltip("sem:Q", title="SEM", format=".2g"),
        alt.Tooltip("n:Q", title="seeds"),
    ]
    y = value_axis(f"{unit(first)} at the end")
    lines = base.mark_line(strokeWidth=1.5, opacity=0.7).encode(y=y)
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q")
    dots = base.mark_point(filled=True, size=60 if n_tasks <= 20 else 18, opacity=1).encode(
        y=y, shape=shape(labels), tooltip=tooltip
    )
    if not published:
        return style_chart(lines + bars + dots)
    marks = [_mark(label, number) for label, number in published.items()]
    return style_chart(
        lines + bars + dots + _published_rules(marks, labels), "dashed, with a hollow mark: published mean"
    )


def _mark(label: str, published: Published) -> dict:
    margin = 0.0 if math.isnan(published.sem) else published.sem
    low, high = published.mean - margin, published.mean + margin
    return {"label": label, "mean": published.mean, "low": low, "high": high, "sem": published.sem}


def _published_rules(marks: list[dict], labels: list[str]) -> Chart:
    """Return a line at each published mean, at its end the shape of the method, which needs no colour."""
    alt = altair()
    base = alt.Chart(rows(marks)).encode(y=alt.Y("mean:Q"), color=colour(labels))
    tooltip = [
        alt.Tooltip("label:N", title="method"),
        alt.Tooltip("mean:Q", title="published mean over tasks"),
        alt.Tooltip("sem:Q", title="± as published"),
    ]
    rules = base.mark_rule(strokeDash=[5, 4], strokeWidth=1.5).encode(tooltip=tooltip)
    ends = base.mark_point(size=80, filled=False, strokeWidth=2, opacity=1).encode(
        x=alt.value("width"), shape=shape(labels), tooltip=tooltip
    )
    return rules + ends
