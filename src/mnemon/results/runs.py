"""Runs that are read together: records of different versions, with the same settings to each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

from mnemon.config import flat
from mnemon.results.record import RunRecord

Complete = Callable[[RunRecord], dict[str, Any]]
"""Returns the config of a record with every setting: one that the record lacks has its default."""


def as_it_is(record: RunRecord) -> dict[str, Any]:
    """Return the config of a record without any more settings."""
    return record.config


def read_runs(folders: Iterable[Path], complete: Complete = as_it_is) -> dict[Path, RunRecord]:
    """Read run folders, by their path.

    A record of an earlier version lacks the settings that came later. Where some records of a method and benchmark
    lack settings that others have, `complete` adds them. It is called only then, for it has to import torch to know
    all settings.
    """
    return complete_settings({folder: RunRecord.read(folder) for folder in folders}, complete)


def complete_settings(runs: dict[Path, RunRecord], complete: Complete) -> dict[Path, RunRecord]:
    """Give records that are read together the same settings (see `read_runs`)."""
    seen: dict[tuple[str, ...], set[frozenset[str]]] = {}
    for record in runs.values():
        seen.setdefault(_kind(record), set()).add(frozenset(name for name, _ in flat(record.config)))
    for record in runs.values():
        if len(seen[_kind(record)]) > 1:
            record.config = complete(record)
    return runs


def _kind(record: RunRecord) -> tuple[str, ...]:
    """Return the names on which it depends which settings there are."""
    benchmark, method = (record.config.get(section, {}) for section in ("benchmark", "method"))
    replay = method.get("replay")
    model = replay.get("model", "") if isinstance(replay, Mapping) else ""
    return str(benchmark.get("name", "")), str(method.get("name", "")), str(model)
