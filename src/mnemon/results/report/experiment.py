"""One experiment of a report: its figures, its tables, and what is alarming in it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from mnemon.config import flat
from mnemon.plugins import note_of_missing
from mnemon.results import figures, samples
from mnemon.results.costs import describe_kept_per_task, in_bytes, ms_per_step, parameters, stored_bytes
from mnemon.results.figures.style import MOST_SERIES, pick_evenly
from mnemon.results.groups import Experiment, method_of, scenario_of
from mnemon.results.metrics import METRICS, AccuracyMatrix, mean_and_sem
from mnemon.results.naming import describe_changes
from mnemon.results.record import RunRecord
from mnemon.results.report.page import Charts, Figure, Pictures, Sheet, Table, show_spread, show_spread_as
from mnemon.results.terminal.tables import describe_test_data, names_over_seeds, unit
from mnemon.results.verdict import UNKNOWN, Background, Judgement, judge, with_sign

MOST_PLACES = 50
"""Places along a side of the map of an embedding space."""


@dataclass
class Section:
    """One experiment."""

    id: str
    experiment: Experiment
    charts: Charts
    pictures: Pictures
    drawn: bool
    background: Background = UNKNOWN
    figures: list[Figure] = field(default_factory=list)
    losses: list[Figure] = field(default_factory=list)
    sheets: list[Sheet] = field(default_factory=list)
    space: Figure | None = None
    space_table: Table | None = None
    space_note: str = ""

    def __post_init__(self) -> None:
        if self.drawn:
            self._draw()
            self._add_predictions()
            self._add_sheets()
            self._add_space()

    @property
    def label(self) -> str:
        return self.experiment.label

    @property
    def made_of(self) -> str:
        """Its preset, in what it differs from that, and the plugins that it needs and that are missing."""
        said = describe_changes(self.record.preset, self.record.changes), note_of_missing(self.record.plugins)
        return ". ".join(part for part in said if part)

    @property
    def record(self) -> RunRecord:
        return self.experiment.first

    @property
    def records(self) -> list[RunRecord]:
        return self.experiment.records

    @property
    def method(self) -> str:
        return method_of(self.record)

    @property
    def scenario(self) -> str:
        return scenario_of(self.record)

    @property
    def unit(self) -> str:
        return unit(self.record)

    @property
    def seeds(self) -> str:
        return _ranges(record.seed for record in self.records)

    @property
    def finished(self) -> str:
        n = sum(record.finished for record in self.records)
        return "all" if n == len(self.records) else f"{n} of {len(self.records)}"

    @property
    def started(self) -> str:
        return min(record.started for record in self.records).replace("T", " ")[:16]

    @property
    def alarms(self) -> list[str]:
        return [text.removeprefix(f"{self.label}: ") for text in alarms_of([self.experiment])]

    @property
    def folders(self) -> list[str]:
        return [str(path) for path in self.experiment.runs]

    @property
    def verdict(self) -> dict[str, str]:
        verdict = judge(self.records, self.background)
        difference = with_sign(verdict.difference, self.record.digits)
        measured = show_spread((r.accuracy.final.value for r in self.records if r.finished), self.record)
        return {
            "published": self.record.published or "·",
            "measured": measured,
            "n": str(verdict.n),
            "difference": difference or "·",
            "words": verdict.words,
            "kind": _kind(verdict.judgement, self.record.accuracy.of_errors),
            "reason": verdict.reason,
        }

    @property
    def tasks(self) -> Table:
        record, values = self.record, [r.accuracy.values for r in self.records]
        rows = []
        for j, name in enumerate(names_over_seeds(self.records)):
            during, final = [v[j, j] for v in values], [v[-1, j] for v in values]
            change = [b - a for a, b in zip(during, final, strict=True)]
            rows.append([f"{j + 1}: {name}", *(show_spread(numbers, record) for numbers in (during, final, change))])
        caption = f"{unit(record)} on each task{describe_test_data(record)}"
        return Table(caption, ("task", "right after", "at the end", "change"), rows)

    @property
    def metrics(self) -> Table:
        rows = []
        for name in METRICS:
            all_ = [record.accuracy.metrics[name] for record in self.records]
            reason = next((metric.reason for metric in all_ if metric.reason), "")
            value = show_spread((metric.value for metric in all_), self.record)
            about = _about_metric(name)
            rows.append([name, value, f"{about} None here: {reason}." if value == "·" and reason else about])
        if any(not math.isnan(v) for record in self.records for row in record.inferred for v in row):
            right = [mean_and_sem(record.inferred[-1])[0] for record in self.records if record.inferred]
            rows.append(
                [
                    "task identification accuracy",
                    show_spread(right, self.record),
                    "Percentage of inputs, at the end.",
                ]
            )
        if drifts := [record.largest_drift for record in self.records if not math.isnan(record.largest_drift)]:
            drift = show_spread_as(drifts, ".2g")
            rows.append(["replay drift", drift, "Mean squared, of the task with the largest drift."])
        return Table(
            "Metrics of the accuracy matrix, each named after its source", ("metric", "value", "meaning"), rows
        )

    @property
    def costs(self) -> Table:
        counts, record = self.record.counts, self.record
        rows = [
            ["parameters stored after the last task", f"{parameters(record):,} ({in_bytes(stored_bytes(record))})"],
            ["of these, for each task", f"{int(counts['per_task']):,}"],
            ["kept of each task", describe_kept_per_task(record)],
            ["weights of the target network", f"{int(counts['target']):,}"],
            ["compression (stored / target)", f"{counts['compression']:.3f}"],
            [
                "training per seed",
                f"{show_spread_as((r.seconds.get('train', math.nan) for r in self.records), '.1f')} s",
            ],
            [
                "testing per seed",
                f"{show_spread_as((r.seconds.get('test', math.nan) for r in self.records), '.1f')} s",
            ],
            ["training step", f"{show_spread_as((ms_per_step(r) for r in self.records), '.3g')} ms"],
        ]
        return Table("Parameters and time", ("cost", "value"), rows)

    @property
    def settings(self) -> Table:
        rows = [[name, _plain(value)] for name, value in flat(self.record.config)]
        return Table("Every setting", ("setting", "value"), rows, numeric=False)

    @property
    def versions(self) -> Table:
        names = dict.fromkeys(name for record in self.records for name in record.versions)
        rows = [
            [name, ", ".join(dict.fromkeys(r.versions[name] for r in self.records if name in r.versions))]
            for name in names
        ]
        return Table("Versions", ("what", "version"), rows, numeric=False)

    def _draw(self) -> None:
        records, record = self.records, self.record
        if not any(r.matrix for r in records):
            return
        said, over = f"{unit(record)}{describe_test_data(record)}", "" if len(records) == 1 else ", mean over seeds"
        band = "" if len(records) == 1 else "; bands are one SEM over seeds"
        n_tasks = len(record.task_names)
        some = f" (some of {n_tasks} tasks)" if n_tasks > figures.matrix.MOST_CELLS else ""
        few = f" (some of {n_tasks} tasks)" if n_tasks > MOST_SERIES else ""
        self.figures = [
            self.charts.add(
                figures.accuracy_matrix(records), f"{said} on each task after learning each task{over}{some}"
            ),
            self.charts.add(
                figures.per_task(records), f"{said} on each task: after learning it, and after the last task{band}"
            ),
            self.charts.add(
                figures.tasks_over_time(records), f"{said} on each task as more tasks are learned{few}{band}"
            ),
            self.charts.add(figures.average_so_far({"": records}), f"{said} averaged over the tasks so far{band}"),
        ]
        for name in figures.terms_of(records):
            caption = f"{name} over all steps{band}; dotted lines: a new task begins"
            self.losses.append(self.charts.add(figures.loss_term(records, name), caption))

    def _add_predictions(self) -> None:
        for path, record in self.experiment.runs.items():
            if curves := [curve for curve in figures.read_curves(path) if curve.at_the_end]:
                few = f" (some of {len(curves)} tasks)" if len(curves) > MOST_SERIES else ""
                caption = f"Predictions after the last task, and true values, seed {record.seed}{few}"
                self.figures.append(self.charts.add(figures.predictions({"": curves}), caption))
                return

    def _add_sheets(self) -> None:
        for path, record in self.experiment.runs.items():
            sheet = path / samples.FOLDER / samples.SHEET
            if width := samples.width_of(sheet):
                sides = "Left: after learning the task. Right: after the last task."
                about = f"Replayed images, seed {record.seed}. A row per task. {sides}"
                self.sheets.append(Sheet(self.pictures.of(sheet), str(sheet), about, width))
                return

    def _add_space(self) -> None:
        for path in self.experiment.runs:
            space = figures.EmbeddingMap.read(path)
            if space is None:
                continue
            thinned = _thin_out(space)
            if thinned is not space:
                self.space_note = (
                    f"Drawn on {len(thinned.xs)} × {len(thinned.ys)} of {len(space.xs)} × {len(space.ys)} places."
                )
            caption = "Accuracy (%) at each point of the embedding space; marks are the embeddings of the tasks"
            self.space = self.charts.add(figures.embedding_map(thinned), caption)
            rows = [[task, *(f"{space.nearest(task, at):.1f}" for at in space.embeddings)] for task in space.accuracy]
            self.space_table = Table(
                "Accuracy (%) on a task (row) with the embedding of another task (column)",
                ("", *space.embeddings),
                rows,
            )
            return


def alarms_of(experiments: Sequence[Experiment]) -> list[str]:
    """Return what is alarming in experiments, each once: what never acted or was not learned, runs that failed."""
    found = [f"{e.label}: {alarm}" for e in experiments for record in e.records for alarm in record.alarms]
    found += [f"{e.label}, seed {seed} failed: {why}" for e in experiments for seed, why in e.failures.items()]
    return list(dict.fromkeys(found))


# Small things that are shown


def _kind(judgement: Judgement, of_errors: bool) -> str:
    """Say whether a judgement is good news: of accuracies the higher is the better, of errors the lower."""
    if judgement is (Judgement.ABOVE if of_errors else Judgement.BELOW):
        return "worse"
    return "open" if judgement in (Judgement.UNDECIDED, Judgement.NOT_COMPARABLE) else "reached"


def _plain(value: Any) -> str:
    return (
        ", ".join(map(str, value))
        if isinstance(value, list)
        else str(value).lower()
        if value in (True, False)
        else str(value)
    )


def _about_metric(name: str) -> str:
    """Return the sentence that explains a metric where it is defined."""
    return str(getattr(AccuracyMatrix, name).__doc__)


def _ranges(numbers: Iterable[int]) -> str:
    """Show numbers in short: 0–4, 7."""
    parts: list[list[int]] = []
    for number in sorted(numbers):
        if parts and number == parts[-1][1] + 1:
            parts[-1][1] = number
        else:
            parts.append([number, number])
    return ", ".join(str(a) if a == b else f"{a}–{b}" for a, b in parts)


def _thin_out(space: figures.EmbeddingMap) -> figures.EmbeddingMap:
    """Return a map with as many places as a page can take."""
    if max(len(space.xs), len(space.ys)) <= MOST_PLACES:
        return space
    xs, ys = pick_evenly(len(space.xs), MOST_PLACES), pick_evenly(len(space.ys), MOST_PLACES)
    grids = {task: [[grid[i][j] for j in xs] for i in ys] for task, grid in space.accuracy.items()}
    return figures.EmbeddingMap([space.xs[j] for j in xs], [space.ys[i] for i in ys], grids, space.embeddings)
