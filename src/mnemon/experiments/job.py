"""One run to be done, what it is done with, and what is heard of it meanwhile."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from mnemon.experiments.compute import Compute
from mnemon.experiments.control import StopFlag, never
from mnemon.experiments.run_config import RunConfig
from mnemon.training.distributed import ALONE, Crew
from mnemon.training.trainer import Progress, Watcher

if TYPE_CHECKING:
    from mnemon.experiments.run import BuiltRun


class Job(NamedTuple):
    """One run: of a study, of a comparison or of a sweep."""

    number: int
    config: RunConfig
    seed: int
    folder: Path
    label: str = ""
    """The method as the user named it, where several are compared."""
    built: BuiltRun | None = None
    """What was built to check the settings, where the run happens in the same process: it is not built again."""

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


def ignore(event: Event) -> None:
    """Do nothing about an event."""


DEFAULT_COMPUTE = Compute()


@dataclass(frozen=True)
class RunContext:
    """What one or several runs are done with: where, how many at a time, who is told, and who may stop them."""

    compute: Compute = DEFAULT_COMPUTE
    workers: int | None = 1
    """Runs at a time, each a process of its own; with None a cluster has as many as it has cores."""
    on: str | None = None
    """Where runs are done (see `engines`): None for this machine."""
    on_event: Callable[[Event], None] = ignore
    should_stop: StopFlag = never
    crew: Crew = ALONE
    """The processes that share one run."""
    resume: str = "mnemon run --resume FOLDER"
    """What to type to resume what is left, for errors."""

    def shared_by(self, crew: Crew) -> RunContext:
        """Return the same for a run that several processes share."""
        return replace(self, crew=crew)


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
