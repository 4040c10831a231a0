"""What was predicted beside what is true, for tasks of one number for another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from mnemon.results.figures.style import Chart, altair, colour, rows


@dataclass(frozen=True)
class Prediction:
    """One point of a curve."""

    label: str
    """The method."""
    task: str
    x: float
    truth: float
    value: float


def predictions(points: Sequence[Prediction]) -> Chart:
    """Draw a panel per method: true curves dashed, predictions as dots."""
    alt, tasks = altair(), list(dict.fromkeys(point.task for point in points))
    base = alt.Chart(rows(asdict(point) for point in points)).encode(
        x=alt.X("x:Q", title="x"), color=colour(tasks, field="task")
    )
    truth = base.mark_line(strokeDash=[5, 3], strokeWidth=1.5).encode(y=alt.Y("truth:Q", title="y"))
    dots = base.mark_point(filled=True, size=12, opacity=0.8).encode(y=alt.Y("value:Q", title="y"))
    labels = list(dict.fromkeys(point.label for point in points))
    panels = (
        (truth + dots).properties(width=230, height=200).facet(column=alt.Column("label:N", title=None, sort=labels))
    )
    return panels.configure_view(stroke=None)
