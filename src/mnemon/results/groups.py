"""Runs that belong together: seeds of one experiment, methods of a comparison, experiments on the same tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from mnemon.config import flat
from mnemon.errors import UsageError
from mnemon.results.comparison import FILE, ComparisonTable
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.runs import Complete, as_it_is, complete_settings
from mnemon.results.study import Study
from mnemon.results.terminal.tables import draws_tasks, inputs_per_vote, subject, tasks_of

MOST_NAMED = 3
"""Settings that a label names."""


@dataclass
class Experiment:
    """Runs that differ only in their seeds."""

    label: str
    runs: dict[Path, RunRecord]
    failures: dict[int, str] = field(default_factory=dict)
    """Why a seed could not go on."""

    @property
    def records(self) -> list[RunRecord]:
        """The records of its runs."""
        return list(self.runs.values())

    @property
    def first(self) -> RunRecord:
        """One of its records, for what all have in common."""
        return next(iter(self.runs.values()))


@dataclass
class Group:
    """Experiments that learned the same tasks and can be drawn side by side."""

    title: str
    experiments: list[Experiment]

    @property
    def records(self) -> dict[str, list[RunRecord]]:
        """The records of each experiment by its label."""
        return {experiment.label: experiment.records for experiment in self.experiments}


Reportable = Path | RunRecord | Study | ComparisonTable
"""What can be put into a report: a folder, or what was read from one."""


def gather(items: Sequence[Reportable], complete: Complete = as_it_is) -> list[Group]:
    """Return runs, seeds and comparisons, each run once, in groups of the same tasks; folders are read.

    `complete` gives older records the settings that they lack (see `read_runs`).
    """
    found = _Gathered()
    for item in items:
        if isinstance(item, Path):
            _add_folder(found, item, complete)
        elif isinstance(item, ComparisonTable):
            if found.is_new(item.folder):
                found.groups.append(_find_compared(item))
        else:
            for record in item.records if isinstance(item, Study) else [item]:
                if found.is_new(home := folder_of(record)):
                    found.alone[home] = record
    return found.groups + _by_tasks(_by_settings(complete_settings(found.alone, complete)))


@dataclass
class _Gathered:
    """What was found so far."""

    groups: list[Group] = field(default_factory=list)
    """Of comparisons."""
    alone: dict[Path, RunRecord] = field(default_factory=dict)
    """Runs that belong to no comparison."""
    seen: set[Path] = field(default_factory=set)

    def is_new(self, folder: Path) -> bool:
        """Tell whether a folder was not met before, and note that it was."""
        place = folder.resolve()
        new = place not in self.seen
        self.seen.add(place)
        return new


def _add_folder(found: _Gathered, folder: Path, complete: Complete) -> None:
    """Add what is at or below a folder."""
    runs = find_runs(folder)
    compared = [path.parent for path in sorted({*folder.glob(FILE), *folder.rglob(FILE)})]
    found.groups += [_find_compared(ComparisonTable.read(home, complete)) for home in compared if found.is_new(home)]
    inside = {home.resolve() for home in compared}
    for path in runs:
        if inside.isdisjoint(path.resolve().parents) and found.is_new(path):
            found.alone[path] = RunRecord.read(path)


def folder_of(item: Reportable) -> Path:
    """Return the folder of something that can be put into a report."""
    if isinstance(item, Path):
        return item
    if item.folder is None:
        raise UsageError(f"The record of {item.name} has no folder: read it from one, or write it to one.")
    return item.folder


def _find_compared(table: ComparisonTable) -> Group:
    experiments = [Experiment(entry.label, entry.runs, entry.failures) for entry in table.entries]
    return Group(f"{table.comparison.benchmark}, {table.comparison.scenario}", experiments)


def _by_settings(runs: dict[Path, RunRecord]) -> list[Experiment]:
    """Put seeds together; a seed that comes twice begins another experiment."""
    found: dict[tuple[str, int], Experiment] = {}
    for path, record in runs.items():
        key, times = json.dumps([record.config, *subject(record)], sort_keys=True), 0
        while (key, times) in found and record.seed in {r.seed for r in found[key, times].records}:
            times += 1
        label = f"{record.name} vote={vote}" if (vote := inputs_per_vote(record)) > 1 else record.name
        found.setdefault((key, times), Experiment(label, {})).runs[path] = record
    experiments = list(found.values())
    for label in {experiment.label for experiment in experiments}:
        _tell_apart([experiment for experiment in experiments if experiment.label == label])
    return experiments


def _tell_apart(experiments: list[Experiment]) -> None:
    """Name what differs between experiments of one name, or else their folders."""
    if len(experiments) == 1:
        return
    settings = [dict(flat(experiment.first.config)) for experiment in experiments]
    everywhere = {name: None for values in settings for name in values if name not in ("preset", "published")}
    differing = [name for name in everywhere if any(v.get(name) != settings[0].get(name) for v in settings)]
    taken: set[str] = set()
    for experiment, values in zip(experiments, settings, strict=True):
        said = [f"{name.rpartition('.')[2]}={values[name]}" for name in differing[:MOST_NAMED] if name in values]
        label = " ".join([experiment.label, *said])
        names = [label, f"{label} ({next(iter(experiment.runs)).name})"]
        numbered = (f"{label} (no. {i})" for i in count(2))
        experiment.label = next(name for name in chain(names, numbered) if name not in taken)
        taken.add(experiment.label)


def _by_tasks(experiments: Iterable[Experiment]) -> list[Group]:
    found: dict[str, Group] = {}
    for experiment in experiments:
        first = experiment.first
        drawn = "tasks drawn by seed" if draws_tasks(first) else ""
        title = ", ".join(word for word in (benchmark_of(first), scenario_of(first), drawn) if word)
        key = json.dumps([title, first.metric, tasks_of(first)])
        found.setdefault(key, Group(title or first.name, [])).experiments.append(experiment)
    return list(found.values())


def benchmark_of(record: RunRecord) -> str:
    """Return the name of the benchmark of a run."""
    return str(record.config.get("benchmark", {}).get("name", ""))


def method_of(record: RunRecord) -> str:
    """Return the name of the method of a run."""
    return str(record.config.get("method", {}).get("name", ""))


def scenario_of(record: RunRecord) -> str:
    """Return what is told of the task in a run."""
    return str(record.config.get("training", {}).get("scenario", ""))
