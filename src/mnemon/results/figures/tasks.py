"""Tasks over time: each right after it was learned and at the end, each after every later task, and their average."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from mnemon.results.figures.style import (
    MOST_SERIES,
    Chart,
    altair,
    band,
    colour,
    dash,
    matrices,
    pick_evenly,
    rows,
    shape,
    spread_row,
    style_chart,
    task_axis,
    value_axis,
)
from mnemon.results.published import read
from mnemon.results.record import RunRecord
from mnemon.results.terminal.tables import check_same_experiment, names_over_seeds, unit

RIGHT_AFTER, AT_THE_END = "right after", "at the end"


def per_task(records: Sequence[RunRecord]) -> Chart:
    """Draw each task right after it was learned and at the end, with the published mean if there is one."""
    check_same_experiment(records)
    first, values = records[0], matrices(records)
    points = [
        spread_row(column, task=j + 1, name=name, label=label)
        for j, name in enumerate(names_over_seeds(records))
        for label, column in ((RIGHT_AFTER, values[:, j, j]), (AT_THE_END, values[:, -1, j]))
    ]
    chart = _lines(points, [RIGHT_AFTER, AT_THE_END], "task", len(first.task_names), unit(first))
    return style_chart(_with_reference(chart, first))


def tasks_over_time(records: Sequence[RunRecord], tasks: Sequence[int] | None = None) -> Chart:
    """Draw tasks after each task learned from their own on; by default all, or some if there are many."""
    check_same_experiment(records)
    first, values = records[0], matrices(records)
    n_tasks, names = len(first.task_names), names_over_seeds(records)
    tasks = pick_evenly(n_tasks, MOST_SERIES) if tasks is None else tasks
    labels = [f"{j + 1}: {names[j]}" for j in tasks]
    points = [
        spread_row(values[:, i, j], after=i + 1, label=label)
        for j, label in zip(tasks, labels, strict=True)
        for i in range(j, n_tasks)
    ]
    return style_chart(_lines(points, labels, "after", n_tasks, unit(first), "tasks learned", "task"))


def average_so_far(groups: Mapping[str, Sequence[RunRecord]]) -> Chart:
    """Draw the mean over the tasks learned so far, a line per group of seeds, and published values at the end."""
    points, marks = [], []
    first, n_tasks = next(iter(groups.values()))[0], 0
    for label, records in groups.items():
        check_same_experiment(records)
        values = matrices(records)
        n_tasks = max(n_tasks, values.shape[1])
        points += [
            spread_row(np.mean(values[:, i, : i + 1], axis=1), after=i + 1, label=label)
            for i in range(values.shape[1])
        ]
        if published := read(records[0].published):
            marks.append(_mark(label, published, values.shape[1]))
    labels = list(groups)
    chart = _lines(points, labels, "after", n_tasks, f"{unit(first)}, mean so far", "tasks learned")
    if marks:
        chart += _published_points(marks, labels, n_tasks)
    return style_chart(chart, "hollow diamonds: published" if marks else "")


def _lines(
    points: list[dict], labels: list[str], x: str, n_tasks: int, unit: str, x_title: str = "task", legend: str = ""
) -> Chart:
    alt = altair()
    points = [point for point in points if point["n"]]
    title = legend or None
    base = alt.Chart(rows(points)).encode(x=task_axis(n_tasks, x_title, x), color=colour(labels, title))
    tooltip = [
        *([alt.Tooltip("label:N", title=legend or "series")] if any(labels) else []),
        alt.Tooltip(f"{x}:Q", title=x_title),
        *([alt.Tooltip("name:N", title="named")] if points and "name" in points[0] else []),
        alt.Tooltip("mean:Q", title=unit, format=".4g"),
        alt.Tooltip("sem:Q", title="SEM", format=".2g"),
        alt.Tooltip("n:Q", title="seeds"),
    ]
    line = base.mark_line(strokeWidth=2).encode(y=value_axis(unit), strokeDash=dash(labels, title))
    dots = base.mark_point(filled=True, size=55 if n_tasks <= 20 else 18, opacity=1).encode(
        y=value_axis(unit), shape=shape(labels, title), tooltip=tooltip
    )
    return band(base) + line + dots


def _with_reference(chart: Chart, record: RunRecord) -> Chart:
    """Add the published mean over tasks as a line."""
    published = read(record.published)
    if published is None:
        return chart
    alt = altair()
    data = rows([{"mean": published.mean, "text": f"published mean {record.published}"}])
    base = alt.Chart(data).encode(y=value_axis(unit(record)))
    rule = base.mark_rule(strokeDash=[4, 4], strokeWidth=1.5).encode(tooltip=alt.Tooltip("text:N", title="reference"))
    note = base.mark_text(align="left", baseline="bottom", dy=-3, fontSize=11).encode(x=alt.value(4), text="text:N")
    return chart + rule + note


def _mark(label: str, published: tuple[float, float], n_tasks: int) -> dict:
    mean, sem = published
    margin = 0.0 if np.isnan(sem) else sem
    return {"label": label, "after": n_tasks, "mean": mean, "low": mean - margin, "high": mean + margin, "sem": sem}


def _published_points(marks: list[dict], labels: list[str], n_tasks: int) -> Chart:
    alt = altair()
    base = alt.Chart(rows(marks)).encode(x=task_axis(n_tasks, "tasks learned", "after"), color=colour(labels))
    bars = base.mark_rule(strokeWidth=1.5).encode(y=alt.Y("low:Q"), y2="high:Q")
    diamonds = base.mark_point(shape="diamond", size=130, filled=False, strokeWidth=2).encode(
        y=alt.Y("mean:Q"),
        tooltip=[
            alt.Tooltip("label:N", title="series"),
            alt.Tooltip("mean:Q", title="published"),
            alt.Tooltip("sem:Q", title="± as published"),
        ],
    )
    return bars + diamonds
