"""Records of earlier versions: a setting that came later has its default in them."""

from __future__ import annotations

from typing import Any

from mnemon.config import merged
from mnemon.errors import UsageError
from mnemon.results.record import RunRecord


def complete(record: RunRecord) -> dict[str, Any]:
    """Return the config of a record with every setting; one that it lacks has its default.

    By the same rule runs are found for `mnemon reproduce`. A config that this version does not know stays as it is.
    """
    # Settings belong to learners and networks: to know them all takes torch, which most that is shown can do without.
    from mnemon.experiments.run_config import from_record

    try:
        return merged(from_record(record).plain(), record.config)
    except UsageError:
        return record.config
