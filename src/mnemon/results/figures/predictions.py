"""What was predicted beside what is true, for tasks of one number for another.

predictions.json in a run folder holds the curves of all tasks, as they were predicted at two moments.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from mnemon.errors import UsageError
from mnemon.results.facts import build, read_facts
from mnemon.results.figures.style import (
    MOST_SERIES,
    Chart,
    altair,
    colour,
    configure_chart,
    pick_evenly,
    rows,
    shape,
    style_chart,
)
from mnemon.whole_files import write_text

FILE = "predictions.json"
MOST_POINTS = 50
"""Points of a curve that are drawn."""


@dataclass
class PredictedCurve:
    """A task of one number for another: inputs, what is true, and what was predicted."""

    name: str
    x: list[float]
    truth: list[float]
    right_after: list[float] = field(default_factory=list)
    """Empty before the task was learned."""
    at_the_end: list[float] = field(default_factory=list)
    """Empty before the last task was learned."""

    def __post_init__(self) -> None:
        for values in (self.truth, self.right_after or self.x, self.at_the_end or self.x):
            if len(values) != len(self.x):
                raise ValueError(f"task '{self.name}' has {len(self.x)} inputs and {len(values)} values")


def write_curves(folder: Path, curves: Sequence[PredictedCurve]) -> None:
    """Keep the predictions of all tasks in a run folder."""
    write_text(folder / FILE, json.dumps([asdict(curve) for curve in curves]))


def read_curves(folder: Path) -> list[PredictedCurve]:
    """Return the predictions in a run folder; none, if none were kept."""
    try:
        found = read_facts(folder / FILE)
        if not isinstance(found, list):
            raise ValueError("it holds no list")
        return [build(PredictedCurve, facts) for facts in found]
    except FileNotFoundError:
        return []
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder / FILE} holds no predictions ({error}): delete it.") from error


def predictions(curves: Mapping[str, Sequence[PredictedCurve]]) -> Chart:
    """Draw a panel for each label: true curves dashed, predictions at the end as dots; of many tasks some."""
    alt, labels = altair(), list(curves)
    points = [point for label in labels for point in _points(label, curves[label])]
    tasks = list(dict.fromkeys(point["task"] for point in points))
    base = alt.Chart(rows(points)).encode(x=alt.X("x:Q", title="x"), color=colour(tasks, "task", "task"))
    tooltip = [
        alt.Tooltip("task:N", title="task"),
        alt.Tooltip("x:Q", title="x", format=".3g"),
        alt.Tooltip("value:Q", title="predicted", format=".3g"),
        alt.Tooltip("truth:Q", title="true", format=".3g"),
    ]
    truth = base.mark_line(strokeDash=[5, 3], strokeWidth=1.5).encode(y=alt.Y("truth:Q", title="y"))
    dots = base.mark_point(filled=True, size=30, opacity=0.8).encode(
        y=alt.Y("value:Q", title="y"), shape=shape(tasks, "task", "task"), tooltip=tooltip
    )
    title = "dashed: true; marks: predicted at the end"
    if len(labels) == 1:
        return style_chart(truth + dots, title)
    panel = (truth + dots).properties(width=230, height=200)
    column = alt.Column("label:N", title=None, sort=labels)
    return configure_chart(panel.facet(column=column).properties(title=title))


def _points(label: str, curves: Sequence[PredictedCurve]) -> list[dict]:
    found = []
    for curve in (curves[i] for i in pick_evenly(len(curves), MOST_SERIES)):
        order = sorted(range(len(curve.at_the_end)), key=lambda i: curve.x[i])
        for i in (order[place] for place in pick_evenly(len(order), MOST_POINTS)):
            point = {"x": curve.x[i], "truth": curve.truth[i], "value": curve.at_the_end[i]}
            found.append({"label": label, "task": curve.name, **point})
    return found
