"""The runs that are there already, found by what they are: their settings and their seed."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from mnemon.errors import UsageError
from mnemon.experiments.run_config import RunConfig, from_record
from mnemon.results.record import RECORD, RunRecord, find_runs, make_folder
from mnemon.whole_files import is_there

_NO_MATTER = {"training": ("log_every", "checkpoint_seconds", "matrix")}
"""Settings that change what is written down, but not what is learned, nor the metrics of a recipe."""


def substance(config: RunConfig) -> dict[str, Any]:
    """Return the settings that decide what is learned: not the names under which they go."""
    tables = {name: table for name, table in config.plain().items() if isinstance(table, dict)}
    for section, names in _NO_MATTER.items():
        tables[section] = {name: value for name, value in tables[section].items() if name not in names}
    return tables


def key_of(config: RunConfig) -> str:
    """Return the same for all configs that learn the same."""
    return json.dumps(substance(config), sort_keys=True)


@dataclass(frozen=True)
class FoundRun:
    """A run that is there."""

    folder: Path
    record: RunRecord
    config: RunConfig


@dataclass
class RunIndex:
    """Runs by their settings and seed."""

    finished: dict[str, dict[int, FoundRun]] = field(default_factory=dict)
    unfinished: dict[str, dict[int, FoundRun]] = field(default_factory=dict)
    """Only those of the own folder: others' runs are left alone."""
    strange: list[Path] = field(default_factory=list)
    """Runs whose settings this version does not know."""

    def records(self, key: str) -> list[RunRecord]:
        """Return the finished runs with these settings, by seed."""
        found = self.finished.get(key, {})
        return [found[seed].record for seed in sorted(found)]

    def first(self, key: str) -> FoundRun | None:
        """Return the finished run of the first seed with these settings."""
        found = self.finished.get(key, {})
        return found[min(found)] if found else None

    def keep(self, names: Mapping[str, str], folder: Path) -> None:
        """Write the records of finished runs, without weights and loss curves, to NAME/seed-N below a folder."""
        for key, name in names.items():
            for seed, found in self.finished[key].items():
                home = folder / name / f"seed-{seed}"
                make_folder(home)
                replace(found.record, losses=[]).write(home)


def look(own: Path, also: Iterable[Path] = ()) -> RunIndex:
    """Return the runs below a folder, and the finished ones below others; the own folder's win."""
    index = RunIndex()
    for folder in also:
        _add(index, find_runs(folder), own=False)
    if is_there(own):
        _add(index, sorted(path.parent for path in own.rglob(RECORD)), own=True)
    return index


def _add(index: RunIndex, folders: Iterable[Path], own: bool) -> None:
    for folder in folders:
        record = RunRecord.read(folder)
        try:
            config = from_record(record)
        except UsageError:
            index.strange.append(folder)
            continue
        if record.finished or own:
            kind = index.finished if record.finished else index.unfinished
            kind.setdefault(key_of(config), {})[record.seed] = FoundRun(folder, record, config)
