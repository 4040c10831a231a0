"""Event files for TensorBoard beside a run's record: losses over steps, accuracies after each task.

loss/TERM                 each term of the loss, at the steps that the record keeps
accuracy/task_1 …         each task, after every task learned (mse/… for regressions)
accuracy/average          the mean over the tasks learned so far
task_inference/average    percentage of inputs whose task was inferred right, where it is not told
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from mnemon import extras
from mnemon.results.record import RunRecord
from mnemon.training.trainer import Progress, Watcher


def check_packages() -> None:
    """Say how to get TensorBoard if it is missing."""
    extras.require("tensorboard", "--tensorboard needs")


@contextmanager
def written(folder: Path, record: RunRecord, progress: Progress, also: Watcher) -> Iterator[Watcher]:
    """Give a watcher that writes events from where a run is, and passes everything on to another."""
    check_packages()
    from torch.utils.tensorboard.writer import SummaryWriter

    begun = _made(progress)
    # What was written after the checkpoint that the run goes on from is taken back: TensorBoard leaves it out.
    writer: Any = SummaryWriter(str(folder), purge_step=begun + 1 if begun else None)
    try:
        yield _Events(writer, record.metric, also)
    finally:
        writer.close()


class _Events(Watcher):
    """Writes what the record keeps, over the steps of all tasks."""

    def __init__(self, writer: Any, metric: str, also: Watcher):
        self.writer, self.metric, self.also = writer, metric, also

    def on_step(self, progress: Progress, terms: dict[str, float]) -> None:
        entry = progress.losses[-1] if progress.losses else {}
        if (entry.get("task"), entry.get("step")) == (progress.task_id, progress.step):
            for name, value in terms.items():
                self.writer.add_scalar(f"loss/{name}", value, _made(progress))
        self.also.on_step(progress, terms)

    def on_task_end(self, progress: Progress) -> None:
        learned, step = progress.task_id, _made(progress)
        row = progress.matrix[-1][:learned]
        for j, value in enumerate(row):
            self._add(f"{self.metric}/task_{j + 1}", value, step)
        self._add(f"{self.metric}/average", sum(row) / learned, step)
        self._add("task_inference/average", sum(progress.inferred[-1][:learned]) / learned, step)
        self.writer.flush()
        self.also.on_task_end(progress)

    def _add(self, name: str, value: float, step: int) -> None:
        if not math.isnan(value):
            self.writer.add_scalar(name, value, step)


def _made(progress: Progress) -> int:
    """Return the steps made in all tasks so far: with epochs, tasks differ in theirs."""
    return sum(progress.steps[: progress.task_id]) + progress.step
