"""Live progress of one or several runs in the terminal."""

from __future__ import annotations

from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from mnemon.experiments.study import Event, Job

MOST_BARS = 12
"""Runs that are shown all at once; of more, those that are under way or have failed."""


class Display:
    """A bar per run; without a terminal, a line per learned task."""

    def __init__(self, jobs: Sequence[Job], console: Console, quiet: bool):
        self.console, self.quiet = console, quiet
        self.jobs = {job.number: job for job in jobs}
        self.few = len(jobs) <= MOST_BARS
        self.live = Progress(
            TextColumn("{task.description}", markup=False),
            BarColumn(bar_width=24),
            TextColumn("task {task.fields[number]}, step {task.fields[step]}"),
            TextColumn("{task.fields[terms]}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            console=console,
            disable=quiet or not console.is_terminal,
        )
        self.bars: dict[int, TaskID] = {}
        for job in jobs:
            self.bars[job.number] = self.live.add_task(
                job.title, total=None, number="-", step="-", terms="waiting", visible=self.few
            )

    def __enter__(self) -> Display:
        self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def on_event(self, event: Event) -> None:
        """Show an event."""
        if self.quiet:
            return
        job = self.jobs[event.run]
        if event.failure:
            self.console.print(f"{job.title}  failed: {event.failure}", highlight=False, soft_wrap=True)
            self.live.update(self.bars[event.run], terms="failed", visible=True)
            return
        each = event.steps or (job.config.training.steps,) * event.n_tasks
        steps = each[event.task_id]
        if event.row is not None and not self.console.is_terminal:
            own = event.row[event.task_id]
            seen = [value for value in event.row[: event.task_id + 1] if value == value]
            mean = sum(seen) / len(seen)
            self.console.print(
                f"{job.title}  task {event.task_id + 1}/{event.n_tasks} learned: {own:.4g} on it, "
                f"{mean:.4g} on average so far",
                highlight=False,
                soft_wrap=True,
            )
        done = sum(each[: event.task_id]) + (event.step if event.row is None else steps)
        shown = "  ".join(f"{name} {value:.3g}" for name, value in event.terms.items()) or "tested"
        self.live.update(
            self.bars[event.run],
            completed=done,
            total=sum(each),
            visible=self.few or event.row is None or event.task_id + 1 < event.n_tasks,
            number=f"{event.task_id + 1}/{event.n_tasks}",
            step=f"{event.step or steps}/{steps}",
            terms=shown,
        )
