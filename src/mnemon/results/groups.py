"""Runs that belong together: seeds of one experiment, methods of a comparison, experiments on the same tasks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import chain, count
from pathlib import Path

from mnemon.config import flat
from mnemon.results.comparison import FILE, Comparison, read_entries
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.runs import Complete, as_it_is, read_runs
from mnemon.results.terminal.tables import draws_tasks, subject, tasks_of, voted

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


def gather(folders: Sequence[Path], complete: Complete = as_it_is) -> list[Group]:
    """Return what is in folders of runs, seeds and comparisons, each run once, in groups of the same tasks.

    `complete` gives older records the settings that they lack (see `read_runs`).
    """
    groups: list[Group] = []
    alone: list[Path] = []
    seen: set[Path] = set()
    for folder in folders:
        runs = find_runs(folder)
        compared = [path.parent for path in sorted({*folder.glob(FILE), *folder.rglob(FILE)})]
        for place in compared:
            if place.resolve() not in seen:
                seen.add(place.resolve())
                groups.append(_compared(place, complete))
        inside = tuple(place.resolve() for place in compared)
        for path in runs:
            if path.resolve() not in seen and not any(place in path.resolve().parents for place in inside):
                seen.add(path.resolve())
                alone.append(path)
    return groups + _by_tasks(_by_settings(read_runs(alone, complete)))


def _compared(folder: Path, complete: Complete) -> Group:
    comparison = Comparison.read(folder)
    entries = read_entries(folder, comparison, complete)
    experiments = [Experiment(entry.label, entry.runs, entry.failures) for entry in entries]
    return Group(f"{comparison.benchmark}, {comparison.scenario}", experiments)


def _by_settings(runs: dict[Path, RunRecord]) -> list[Experiment]:
    """Put seeds together; a seed that comes twice begins another experiment."""
    found: dict[tuple[str, int], Experiment] = {}
    for path, record in runs.items():
        key, times = json.dumps([record.config, *subject(record)], sort_keys=True), 0
        while (key, times) in found and record.seed in {r.seed for r in found[key, times].records}:
            times += 1
        label = f"{record.name} vote={vote}" if (vote := voted(record)) > 1 else record.name
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
