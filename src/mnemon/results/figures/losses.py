"""The terms of the loss over time."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import groupby

from mnemon.errors import choose
from mnemon.results.figures.style import COLOURS, Chart, altair, band, configure_chart, rows, spread_row, style_chart
from mnemon.results.record import RunRecord
from mnemon.results.terminal.tables import check_same_experiment

MOST_POINTS = 300
"""Points of a curve; more entries than these are averaged with their neighbours."""
_DECADES = 2.0


def terms_of(records: Sequence[RunRecord]) -> list[str]:
    """Name the terms that runs descended, in the order in which they came up."""
    found = {name: None for record in records for entry in record.losses for name in entry}
    return [name for name in found if name not in ("task", "step")]


def loss_terms(records: Sequence[RunRecord]) -> Chart:
    """Draw all terms, one above the other: they differ in size."""
    check_same_experiment(records)
    charts = [_term(records, name).properties(width=460, height=150) for name in terms_of(records)]
    return configure_chart(altair().vconcat(*charts))


def loss_term(records: Sequence[RunRecord], name: str) -> Chart:
    """Draw one term over all steps of all tasks, the mean over seeds, with a line where a task begins."""
    check_same_experiment(records)
    choose("loss term", name, dict.fromkeys(terms_of(records)))
    return style_chart(_term(records, name), height=150)


def _term(records: Sequence[RunRecord], name: str) -> Chart:
    alt = altair()
    points, averaged = _curve(records, name)
    positive = [point["mean"] for point in points if point["mean"] > 0]
    wide = bool(positive) and math.log10(max(positive) / min(positive)) > _DECADES
    log = wide and all(point["mean"] >= 0 for point in points)
    notes = []
    if log:
        if len(positive) < len(points):
            notes.append("zeros are not drawn")
        points = [{**point, "low": max(point["low"], min(positive))} for point in points if point["mean"] > 0]
    if averaged > 1:
        notes.append(f"means of {averaged} entries")
    title = "step" + (f" ({', '.join(notes)})" if notes else "")
    scale = alt.Scale(type="log", nice=False) if log else alt.Scale(zero=False)
    end = max((point["step"] for point in points), default=1)
    x = alt.X("step:Q", title=title, scale=alt.Scale(domain=[0, end], nice=False), axis=alt.Axis(format="~s"))
    axis = alt.Axis(values=_decades(positive), format=".0e") if log else alt.Axis(format="~g", tickCount=4)
    base = alt.Chart(rows(points)).encode(x=x, color=alt.value(COLOURS[0]), detail="task:N")
    line = base.mark_line(strokeWidth=1.5).encode(
        y=alt.Y("mean:Q", title=name, scale=scale, axis=axis),
        tooltip=[
            alt.Tooltip("task:Q", title="task"),
            alt.Tooltip("step:Q", title="step, all tasks"),
            alt.Tooltip("mean:Q", title=name, format=".3g"),
            alt.Tooltip("sem:Q", title="SEM", format=".2g"),
            alt.Tooltip("n:Q", title="seeds"),
        ],
    )
    chart = band(base) + line
    begins = [{"step": step} for step in _beginnings(records).values()]
    if 1 < len(begins) <= 20:
        rules = alt.Chart(rows(begins[1:])).mark_rule(strokeDash=[2, 3], opacity=0.5).encode(x="step:Q")
        chart = rules + chart
    return chart


def _curve(records: Sequence[RunRecord], name: str) -> tuple[list[dict], int]:
    """Return the points of a term's curve, and how many entries of the record each is the mean of."""
    begins = _beginnings(records)
    seen: dict[tuple[int, int], list[float]] = {}
    for record in records:
        for entry in record.losses:
            if not math.isnan(entry.get(name, math.nan)):
                seen.setdefault((int(entry["task"]), int(entry["step"])), []).append(entry[name])
    n_averaged = -(-len(seen) // MOST_POINTS)
    points = []
    for task, entries in groupby(sorted(seen), key=lambda key: key[0]):
        keys = list(entries)
        for start in range(0, len(keys), n_averaged):
            part = keys[start : start + n_averaged]
            n_seeds = min(len(seen[key]) for key in part)
            means = [sum(seen[key][run] for key in part) / len(part) for run in range(n_seeds)]
            points.append(spread_row(means, task=task + 1, step=begins[task] + part[-1][1]))
    return points, n_averaged


def _decades(values: Sequence[float]) -> list[float]:
    """Return the powers of ten among values, at most five."""
    powers = range(math.ceil(math.log10(min(values))), math.floor(math.log10(max(values))) + 1)
    return [10.0**power for power in powers[:: -(-len(powers) // 5) or 1]]


def _beginnings(records: Sequence[RunRecord]) -> dict[int, int]:
    """Return the steps that were made before each task: the last one of each is always among the losses."""
    last: dict[int, int] = {}
    for record in records:
        for entry in record.losses:
            task = int(entry["task"])
            last[task] = max(int(entry["step"]), last.get(task, 0))
    return {task: sum(last[earlier] for earlier in last if earlier < task) for task in sorted(last)}
