"""What a run keeps and what its steps took, in one number each."""

from __future__ import annotations

import math

from mnemon.results.metrics import mean_and_sem
from mnemon.results.record import RunRecord

BYTES_PER_NUMBER = 4
ALL_DATA = "all data"


def parameters(record: RunRecord) -> int:
    """Return how many numbers are stored after the last task."""
    c = record.counts
    return int(c["learned"] + c["n_tasks"] * c["per_task"] - c.get("spared", 0))


def stored_bytes(record: RunRecord) -> int:
    """Return how many bytes are stored after the last task, beside data."""
    c = record.counts
    shared = c.get("bytes_learned", BYTES_PER_NUMBER * c["learned"]) - BYTES_PER_NUMBER * c.get("spared", 0)
    return int(shared + c["n_tasks"] * bytes_per_task(record))


def bytes_per_task(record: RunRecord) -> int:
    """Return the bytes that each further task takes, beside its data; older records have only numbers."""
    c = record.counts
    return int(c.get("bytes_per_task", BYTES_PER_NUMBER * c["per_task"]))


def steps_made(record: RunRecord) -> float:
    """Return the steps of all tasks: the last one of each is always among the losses.

    Without them the setting says how many there were; of epochs it is NaN.
    """
    last: dict[float, float] = {}
    for line in record.losses:
        last[line["task"]] = max(line["step"], last.get(line["task"], 0))
    if last:
        return sum(last.values())
    training = record.config.get("training", {})
    known = "steps" in training and training.get("epochs", "none") == "none"
    return training["steps"] * len(record.task_names) if known else math.nan


def ms_per_step(record: RunRecord) -> float:
    """Return the milliseconds that a training step took, of a finished run."""
    steps = steps_made(record)
    return 1000 * record.seconds.get("train", math.nan) / steps if record.finished and steps else math.nan


def identification_accuracy(record: RunRecord) -> float:
    """Return the percentage of inputs whose task was inferred right at the end; NaN where it was told."""
    return mean_and_sem(record.inferred[-1])[0] if record.finished and record.inferred else math.nan


def describe_kept_per_task(record: RunRecord) -> str:
    """Show what is kept of each task: so much memory, or all of its data, where these are seen again later."""
    return ALL_DATA if record.counts.get("sees_past") else in_bytes(bytes_per_task(record))


def describe_kept_in_all(record: RunRecord) -> str:
    """Show what is kept of all tasks after the last one; data that are seen again are named, not counted."""
    return in_bytes(stored_bytes(record)) + (" + data" if record.counts.get("sees_past") else "")


def in_bytes(size: float) -> str:
    """Show a number of bytes in a unit that fits."""
    for factor, name in ((1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if size >= factor:
            return f"{size / factor:.1f} {name}"
    return f"{size:.0f} B" if size else "0"
