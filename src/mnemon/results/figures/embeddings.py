"""A map of a two-dimensional embedding space: how well a task is solved from every place, and where embeddings are.

embedding-map.json in a run folder holds one: `xs` and `ys` (the grid), `accuracy` (by task, a row per y) and
`embeddings` (by task, its place after the last task).
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path

from mnemon.errors import UsageError, choose
from mnemon.results.facts import build, check_format, read_facts
from mnemon.results.figures.style import HEAT, Chart, altair, rows, style_chart
from mnemon.whole_files import is_there, write_text

FILE, FORMAT = "embedding-map.json", 1


@dataclass(frozen=True)
class EmbeddingMap:
    """What each place of an embedding space is worth for each task."""

    xs: list[float]
    ys: list[float]
    accuracy: dict[str, list[list[float]]]
    """By task: a row for each of `ys`, in it a value for each of `xs`, in percent."""
    embeddings: dict[str, tuple[float, float]]
    """By task: where its embedding is after the last task."""

    def __post_init__(self) -> None:
        for axis in (self.xs, self.ys):
            if (
                len(axis) < 2
                or not all(math.isfinite(value) for value in axis)
                or any(b <= a for a, b in pairwise(axis))
            ):
                raise ValueError("xs and ys must each be two or more numbers in rising order")
        if not self.accuracy:
            raise ValueError("there is no task in it")
        for task, grid in self.accuracy.items():
            if len(grid) != len(self.ys) or any(len(row) != len(self.xs) for row in grid):
                raise ValueError(f"the grid of task '{task}' is not of {len(self.ys)} rows of {len(self.xs)} values")
        for task, place in self.embeddings.items():
            if len(place) != 2 or not all(math.isfinite(value) for value in place):
                raise ValueError(f"the embedding of task '{task}' is not of two finite numbers")

    def write(self, folder: Path) -> None:
        """Keep the map in a run folder."""
        write_text(folder / FILE, json.dumps({"format": FORMAT, **asdict(self)}))

    @classmethod
    def read(cls, folder: Path) -> EmbeddingMap | None:
        """Return the map of a run folder; None if it has none."""
        path = folder / FILE
        if not is_there(path):
            return None
        try:
            facts = read_facts(path)
            if check_format(facts) > FORMAT:
                raise UsageError(f"{path} was written by a newer mnemon; this one reads format {FORMAT}.")
            return build(cls, {name: value for name, value in facts.items() if name != "format"})
        except (OSError, ValueError) as error:
            raise UsageError(f"{path} holds no map of embeddings: {error}.") from error

    def nearest(self, task: str, at: str) -> float:
        """Return how well a task is solved from the place of the grid that is nearest to an embedding."""
        x, y = self.embeddings[at]
        i = min(range(len(self.ys)), key=lambda i: abs(self.ys[i] - y))
        j = min(range(len(self.xs)), key=lambda j: abs(self.xs[j] - x))
        return self.accuracy[task][i][j]


def embedding_map(space: EmbeddingMap, task: str | None = None) -> Chart:
    """Draw how well a task is solved from each place, with the embeddings of all tasks.

    Without a task there is a menu of them. Pointing at a place shows the value there.
    """
    alt, tasks = altair(), list(space.accuracy)
    if task is not None:
        choose("task", task, space.accuracy)
    menu = None if task else alt.binding_select(options=list(range(len(tasks))), labels=tasks, name="task ")
    chosen = alt.param("chosen", value=tasks.index(task) if task else 0, bind=menu or alt.Undefined)
    wide, high = _edges(space.xs), _edges(space.ys)
    cells = [
        {
            "x": x, "y": y, "left": wide[j], "right": _over(wide, j), "low": high[i], "high": _over(high, i),
            "values": [_one_digit(space.accuracy[name][i][j]) for name in tasks],
        }
        for i, y in enumerate(space.ys)
        for j, x in enumerate(space.xs)
    ]  # fmt: skip
    seen = [v for grid in space.accuracy.values() for row in grid for v in row if math.isfinite(v)] or [0.0, 100.0]
    x_scale = alt.Scale(domain=[wide[0], wide[-1]], nice=False)
    y_scale = alt.Scale(domain=[high[0], high[-1]], nice=False)
    shade = alt.Scale(scheme=HEAT, domain=[min(seen), max(seen)])
    legend = alt.Legend(type="gradient", orient="right", gradientLength=160, gradientThickness=10, title="%")
    heat = (
        alt.Chart(rows(cells))
        .transform_calculate(accuracy="datum.values[chosen]")
        .mark_rect()
        .encode(
            x=alt.X("left:Q", scale=x_scale, title="first component of the embedding"),
            x2="right:Q",
            y=alt.Y("low:Q", scale=y_scale, title="second component"),
            y2="high:Q",
            color=alt.Color("accuracy:Q", scale=shade, legend=legend),
            tooltip=[
                alt.Tooltip("accuracy:Q", title="accuracy (%)", format=".1f"),
                alt.Tooltip("x:Q", title="first component", format=".3g"),
                alt.Tooltip("y:Q", title="second", format=".3g"),
            ],
        )
        .add_params(chosen)
    )
    places = [
        {"task": name, "number": i, "x": x, "y": y} for i, (name, (x, y)) in enumerate(space.embeddings.items())
    ]
    own = f"datum.task === {json.dumps(tasks)}[chosen]"
    base = alt.Chart(rows(places)).encode(
        x=alt.X("x:Q", scale=x_scale),
        y=alt.Y("y:Q", scale=y_scale),
        tooltip=alt.Tooltip("task:N", title="embedding of"),
    )
    marks = base.mark_point(filled=True, size=120, stroke="white", strokeWidth=1.5, opacity=1).encode(
        color=alt.condition(own, alt.value("#D55E00"), alt.value("#000000")),
        shape=alt.condition(own, alt.value("diamond"), alt.value("circle")),
    )
    halo = base.mark_text(
        dy=-14, fontSize=12, fill="white", stroke="white", strokeWidth=3, strokeJoin="round"
    ).encode(text="task:N")
    names = base.mark_text(dy=-14, fontSize=12, fill="black").encode(text="task:N")
    title = f"task {task}" if task else ""
    return style_chart(alt.layer(heat, marks, halo, names), title, height=360, width=400)


def _edges(centres: list[float]) -> list[float]:
    """Return where the cells of a grid begin and end."""
    between = [(a + b) / 2 for a, b in pairwise(centres)]
    return [centres[0] - (between[0] - centres[0]), *between, centres[-1] + (centres[-1] - between[-1])]


def _over(edges: list[float], i: int) -> float:
    """Return the end of a cell, a little over its neighbour, or seams would show."""
    return min(edges[i + 1] + 0.1 * (edges[i + 1] - edges[i]), edges[-1])


def _one_digit(value: float) -> float | None:
    return round(value, 1) if math.isfinite(value) else None
