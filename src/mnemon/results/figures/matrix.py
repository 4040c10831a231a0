"""The accuracy matrix as a heat map."""

from __future__ import annotations

import math
from collections.abc import Sequence

from mnemon.results.figures.style import (
    HEAT,
    LABEL,
    Chart,
    altair,
    matrices,
    pick_evenly,
    rows,
    spread_row,
    style_chart,
)
from mnemon.results.record import RunRecord
from mnemon.results.terminal.tables import check_same_experiment, names_over_seeds, unit

MOST_NUMBERS, MOST_CELLS = 10, 40
"""Tasks up to which each cell shows its number, and up to which all are drawn; of more, some, evenly spread."""


def accuracy_matrix(records: Sequence[RunRecord]) -> Chart:
    """Draw R, the mean over seeds: a row per task learned, a column per task tested."""
    check_same_experiment(records)
    alt, first = altair(), records[0]
    n_tasks = len(first.task_names)
    shown = pick_evenly(n_tasks, MOST_CELLS)
    values, names = matrices(records), names_over_seeds(records)
    cells = [
        spread_row(values[:, i, j], after=i + 1, task=j + 1, name=names[j])
        for i in shown
        for j in shown
        if i < max(len(r.matrix) for r in records)
    ]
    cells = [cell for cell in cells if not math.isnan(cell["mean"])]
    means = [cell["mean"] for cell in cells] or [0.0, 1.0]
    low, high = min(means), max(means)
    digits = ".1f" if first.metric == "accuracy" else ".3f"
    ticks = alt.Axis(labelAngle=0, domain=False, ticks=False, labelOverlap=True)
    base = alt.Chart(rows(cells)).encode(
        x=alt.X("task:O", title="tested on task", axis=ticks, sort=[j + 1 for j in shown]),
        y=alt.Y("after:O", title="after task", axis=ticks, sort=[i + 1 for i in shown]),
    )
    legend = alt.Legend(orient="right", gradientLength=160, gradientThickness=10, title=None, format=digits)
    scale = alt.Scale(scheme=HEAT, domain=[low, high if high > low else low + 1], reverse=first.metric != "accuracy")
    heat = base.mark_rect().encode(
        color=alt.Color("mean:Q", title=unit(first), scale=scale, legend=legend),
        tooltip=[
            alt.Tooltip("task:O", title="task"),
            alt.Tooltip("name:N", title="named"),
            alt.Tooltip("after:O", title="after task"),
            alt.Tooltip("mean:Q", title=unit(first), format=".4g"),
            alt.Tooltip("sem:Q", title="SEM", format=".2g"),
            alt.Tooltip("n:Q", title="seeds"),
        ],
    )
    height = max(110, min(34 * len(shown), 340))
    if n_tasks > MOST_NUMBERS:
        return style_chart(heat, height=height)
    bright = f"datum.mean {'>' if first.metric == 'accuracy' else '<'} {(low + high) / 2}"
    numbers = base.mark_text(fontSize=LABEL - 1).encode(
        text=alt.Text("mean:Q", format=digits), color=alt.condition(bright, alt.value("#000"), alt.value("#fff"))
    )
    return style_chart(heat + numbers, height=height)
