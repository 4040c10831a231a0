"""Experiments on the same tasks, side by side, as a report shows them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from mnemon.config import flat
from mnemon.results import figures
from mnemon.results.costs import (
    describe_kept_in_all,
    describe_kept_per_task,
    identification_accuracy,
    ms_per_step,
    parameters,
    stored_bytes,
)
from mnemon.results.figures.style import MOST_SERIES
from mnemon.results.groups import Experiment, Group
from mnemon.results.metrics import mean_and_sem
from mnemon.results.published import find_published
from mnemon.results.report.page import NOTHING, Charts, Table, show_spread, show_spread_as
from mnemon.results.terminal.tables import describe_test_data, unit

MOST_DOTS = 30
"""Methods in the figure with a row for each."""
INFERRED = "task identification accuracy"
WIDE = 20
"""How many times the smallest value of a setting its largest is, from which on its axis is logarithmic."""


class Board:
    """Experiments on the same tasks, side by side."""

    def __init__(self, group: Group, charts: Charts):
        self.title, self.size = group.title, len(group.experiments)
        first = group.experiments[0].first
        labels = list(group.records)
        some = {label: group.records[label] for label in labels[:MOST_SERIES]}
        rows = {label: group.records[label] for label in labels[:MOST_DOTS]}
        ways = {describe_test_data(experiment.first) for experiment in group.experiments}
        said = unit(first) + (ways.pop() if len(ways) == 1 else "")
        drawable = [record for records in rows.values() for record in records if record.finished]
        self.notes = []
        if len(labels) > MOST_SERIES:
            self.notes.append(f"Lines are drawn for the first {MOST_SERIES} of {len(labels)} experiments.")
        if len(labels) > MOST_DOTS:
            self.notes.append(f"Rows are drawn for the first {MOST_DOTS} of {len(labels)} experiments.")
        self.figures = [
            charts.add(figures.methods_at_the_end(rows), f"{said} at the end, mean over tasks ± SEM over seeds"),
            charts.add(figures.methods_per_task(some), f"{said} on each task at the end, with SEM over seeds"),
            charts.add(figures.average_so_far(some), f"{said} averaged over the tasks so far, with SEM over seeds"),
        ] if drawable else []  # fmt: skip
        if figure := _against_bytes(group):
            caption = f"{said} at the end against the bytes stored for all tasks"
            self.figures.append(charts.add(figure, caption))
        if setting := _one_number_that_differs(group.experiments):
            caption = f"{said} against {setting}, mean over tasks, with SEM over seeds"
            self.figures.append(charts.add(_against(group.experiments, setting), caption))
        table = [_board_row(experiment) for experiment in group.experiments]
        # Where tasks are told there is nothing to infer, and no column for it.
        columns = [name for name in table[0] if name != INFERRED or any(row[name] != NOTHING for row in table)]
        cells = [[row[name] for name in columns] for row in table]
        self.table = Table(f"{said}, mean over tasks", columns, cells)


def _board_row(experiment: Experiment) -> dict[str, str]:
    first, finished = experiment.first, [record for record in experiment.records if record.finished]
    return {
        "method": experiment.label,
        "at the end": show_spread((r.accuracy.final.value for r in finished), first),
        "right after": show_spread((r.accuracy.during.value for r in finished), first),
        INFERRED: show_spread((identification_accuracy(r) for r in finished), first),
        "parameters": f"{parameters(first):,}",
        "kept in all": describe_kept_in_all(first),
        "kept per task": describe_kept_per_task(first),
        "ms per step": show_spread_as((ms_per_step(r) for r in finished), ".3g"),
    }


def _one_number_that_differs(experiments: Sequence[Experiment]) -> str:
    """Name the setting by which all experiments differ, if it is a number and the only one; nothing otherwise."""
    finished = [e.first for e in experiments if any(record.finished for record in e.records)]
    settings = [dict(flat(record.config)) for record in finished]
    names = {name: None for values in settings for name in values if name not in ("preset", "published")}
    differing = [name for name in names if any(values.get(name) != settings[0].get(name) for values in settings)]
    if len(differing) != 1:
        return ""
    values = [values.get(differing[0]) for values in settings]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in values)
    return differing[0] if numbers and len(set(values)) == len(values) else ""


def _against(experiments: Sequence[Experiment], setting: str) -> Any:
    """Draw what experiments came to against the setting by which they differ."""
    end, after, published = [], [], []
    for experiment in experiments:
        if finished := [record.accuracy for record in experiment.records if record.finished]:
            x = dict(flat(experiment.first.config))[setting]
            end.append(figures.Point(x, *mean_and_sem([a.final.value for a in finished])))
            after.append(figures.Point(x, *mean_and_sem([a.during.value for a in finished])))
            if number := find_published(experiment.first):
                published.append(figures.Point(x, *number))
    series = [figures.Series("at the end", end, published), figures.Series("right after each task", after)]
    xs = [point.x for point in end]
    log = min(xs) > 0 and max(xs) / min(xs) > WIDE
    return figures.accuracy_against(series, setting, unit(experiments[0].first), log=log)


def _against_bytes(group: Group) -> Any:
    """Draw what methods came to against the bytes that they keep; nothing where all keep as many, or data."""
    series = []
    for label, records in list(group.records.items())[:MOST_SERIES]:
        finished = [record for record in records if record.finished and not record.counts.get("sees_past")]
        if finished and (kept := stored_bytes(finished[0])):
            mean, sem = mean_and_sem([record.accuracy.final.value for record in finished])
            series.append(figures.Series(label, [figures.Point(kept, mean, sem)]))
    if len({one.points[0].x for one in series}) < 2:
        return None
    return figures.accuracy_against(series, "bytes kept", unit(group.experiments[0].first), log=True)
