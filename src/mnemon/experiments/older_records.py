"""Records of earlier versions: a setting that came later has its default in them."""

from __future__ import annotations

from typing import Any

from mnemon.errors import UsageError
from mnemon.results.record import RunRecord


def complete(record: RunRecord) -> dict[str, Any]:
    """Return the config of a record with every setting; one that it lacks has its default.

    Settings that it had without effect, such as those of another source of replayed inputs, are left out. By the same
    rule runs are found for `mnemon reproduce`. A config that this version does not know stays as it is.
    """
    # Settings belong to learners and networks: to know them all takes torch, which most that is shown can do without.
    from mnemon.experiments.run_config import from_record

    try:
        return from_record(record).plain()
    except UsageError:
        return record.config


def up_to_date(tables: dict[str, Any]) -> dict[str, Any]:
    """Return settings that an earlier version has written as this one would write them, if it can."""
    from mnemon.experiments.preset import Preset
    from mnemon.experiments.run_config import SECTIONS, resolve

    values = {name: table for name, table in tables.items() if name in SECTIONS}
    try:
        return {**tables, **resolve(Preset("", "", "", "", (values,))).plain(), **_names(tables)}
    except UsageError:
        return tables


def _names(tables: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in tables.items() if name in ("preset", "published")}
