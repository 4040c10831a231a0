"""One run to be done, and what is heard of it while it is done."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from mnemon.experiments.run import Compute, execute
from mnemon.experiments.run_config import RunConfig
from mnemon.training.trainer import Progress, Watcher


class Job(NamedTuple):
    """One run of a study or of a sweep."""

    number: int
    config: RunConfig
    seed: int
    folder: Path
    label: str = ""
    """The method as the user named it, where several are compared."""

    @property
    def title(self) -> str:
        """What the run is called in messages."""
        return f"{self.label}, seed {self.seed}" if self.label else f"seed {self.seed}"


class Event(NamedTuple):
    """Something that happened in a run: a step, the end of a task, or a failure."""

    run: int
    n_tasks: int
    task_id: int
    step: int
    terms: dict[str, float]
    row: list[float] | None
    """What was measured after a task; None while it is learned."""
    failure: str = ""
    steps: tuple[int, ...] = ()
    """Steps of each task."""
    metric: str = "accuracy"
    """What was measured: accuracy (percent) or mse."""


class Reporter(Watcher):
    """Hands events on, steps at most five times a second."""

    def __init__(self, run: int, send: Callable[[Event], None]):
        self.run, self.send, self._last = run, send, 0.0

    def on_step(self, progress: Progress, terms: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self._last > 0.2:
            self._last = now
            self._send(progress, progress.task_id, terms, None)

    def on_task_end(self, progress: Progress) -> None:
        self._send(progress, progress.task_id - 1, {}, progress.matrix[-1])

    def _send(self, progress: Progress, task_id: int, terms: dict[str, float], row: list[float] | None) -> None:
        n_tasks = len(progress.steps)
        event = Event(self.run, n_tasks, task_id, progress.step, terms, row, "", progress.steps, progress.metric)
        self.send(event)


def do(job: Job, compute: Compute, send: Callable[[Event], None], should_stop: Callable[[], bool]) -> None:
    """Run a job in its folder, from the start or from where it was left."""
    execute(job.config, job.seed, job.folder, compute, Reporter(job.number, send), should_stop)
