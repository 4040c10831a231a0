"""Live progress of one or several runs in the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from enum import Enum
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mnemon.experiments.bars import Row, laid_out
from mnemon.experiments.job import Event, Job
from mnemon.experiments.pace import Pace, as_clock
from mnemon.experiments.screen import can_redraw

MOST_BARS = 12
"""Runs that are all shown if the terminal is high enough; of more, those that are under way or have failed."""
BESIDE = 3
"""Lines of a terminal that are left to other things."""


class RunStage(Enum):
    """What is going on with a run."""

    UNDER_WAY = "under way"
    FAILED = "failed"
    WAITING = "waiting"
    DONE = "done"


class RunState:
    """How far a run is."""

    def __init__(self, job: Job, clock: Callable[[], float]):
        self.title, self.steps = job.title, job.config.training.steps
        self.state, self.pace = RunStage.WAITING, Pace(clock)
        self.task, self.loss = "", ""
        self.done, self.total = 0, 1

    def see(self, event: Event) -> None:
        """Take note of an event."""
        if event.failure:
            self.end(RunStage.FAILED)
            return
        steps = event.steps or (self.steps,) * event.n_tasks
        self.state, self.task = RunStage.UNDER_WAY, f"{event.task_id + 1}/{event.n_tasks}"
        self.done = sum(steps[: event.task_id]) + (event.step if event.row is None else steps[event.task_id])
        self.total = sum(steps)
        self.pace.see(self.done, self.total)
        if event.terms:
            self.loss = f"loss {event.terms.get('task_loss', sum(event.terms.values())):.3g}"
        if event.row is not None and event.task_id + 1 == event.n_tasks:
            self.end(RunStage.DONE)

    def end(self, state: RunStage) -> None:
        self.state = state
        self.pace.stop()

    @property
    def row(self) -> Row:
        """What its line says."""
        under_way = self.state is RunStage.UNDER_WAY
        left = as_clock(self.pace.left)
        cells = (
            self.task,
            self.loss if under_way else self.state.value,
            as_clock(self.pace.passed),
            f"{left} left" if left else "",
        )
        return Row(self.title, self.done, self.total, cells)


class Display:
    """A line for each task that was learned; in a terminal, below them, a bar for each run."""

    def __init__(
        self, jobs: Sequence[Job], console: Console, quiet: bool, clock: Callable[[], float] = time.monotonic
    ):
        self.console, self.quiet = console, quiet
        self.runs = {job.number: RunState(job, clock) for job in jobs}
        self.live = Live(console=console, get_renderable=self._lines)

    def __enter__(self) -> Display:
        if not self.quiet and can_redraw(self.console) and self.runs:
            self.live.start(refresh=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def on_event(self, event: Event) -> None:
        """Show an event."""
        if self.quiet:
            return
        run = self.runs[event.run]
        run.see(event)
        if event.failure:
            self._say(f"{run.title}  failed: {event.failure}")
        elif event.row is not None:
            self._say(f"{run.title}  task {run.task} learned: {measured(event)}")

    def _say(self, text: str) -> None:
        self.console.print(text, highlight=False, soft_wrap=True)

    def _lines(self) -> RenderableType:
        """Return the bars of all runs; of too many, those of some, and how many there are of each kind."""
        runs = list(self.runs.values())
        room = max(1, min(MOST_BARS, self.console.height - BESIDE))
        if len(runs) <= room:
            return laid_out([run.row for run in runs], self.console.width)
        shown = [run for state in (RunStage.UNDER_WAY, RunStage.FAILED) for run in runs if run.state is state][:room]
        counts = {state: sum(run.state is state for run in runs) for state in RunStage}
        said = ", ".join(f"{n} {state.value}" for state, n in counts.items() if n)
        line = Text(f"{len(runs)} runs: {said}")
        return Group(laid_out([run.row for run in shown], self.console.width), line) if shown else line


def measured(event: Event) -> str:
    """Say what a task that was just learned scores, and the average over the tasks so far if all were tested."""
    assert event.row is not None
    seen = [value for value in event.row[: event.task_id + 1] if value == value]
    own, average = _number(event.row[event.task_id], event), _number(sum(seen) / len(seen), event)
    what = "accuracy" if event.metric == "accuracy" else "MSE"
    return f"{what} {own}" + (f", average {average}" if len(seen) == event.task_id + 1 else "")


def _number(value: float, event: Event) -> str:
    return f"{value:.1f} %" if event.metric == "accuracy" else f"{value:.4g}"
