"""Runs that a user follows: shown while they are under way, and stopped by Ctrl-C so that they can be resumed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from mnemon.errors import Interrupted
from mnemon.experiments import control
from mnemon.experiments.control import StopFlag
from mnemon.experiments.job import Job, RunContext
from mnemon.experiments.screen import Screen
from mnemon.experiments.study import run_jobs
from mnemon.training.checkpoint import FILE
from mnemon.training.trainer import Stopped
from mnemon.whole_files import is_there

Kept = Callable[[], str]
"""Says what is kept where everything was stopped at once."""


def follow_jobs(jobs: Sequence[Job], context: RunContext, screen: Screen, folder: Path) -> None:
    """Run jobs and show how far they are; if they are stopped, raise `Interrupted`, which says how to resume."""
    with (
        resumable(folder, context.resume, lambda: _what_is_kept(jobs)) as should_stop,
        screen.runs(jobs) as view,
    ):
        run_jobs(jobs, replace(context, on_event=view.on_event, should_stop=should_stop))


def _what_is_kept(jobs: Sequence[Job]) -> str:
    there = any(is_there(job.folder / FILE) for job in jobs)
    return "; the last checkpoint is kept" if there else ", before the first checkpoint"


@contextmanager
def resumable(folder: Path, resume: str, kept: Kept) -> Iterator[StopFlag]:
    """Let the first Ctrl-C ask to stop and a second one stop at once; then say how to resume, in `Interrupted`."""
    try:
        with control.stop_on_signal() as should_stop:
            yield should_stop
    except (Stopped, KeyboardInterrupt) as stop:
        saved = "; everything is saved" if isinstance(stop, Stopped) else f" at once{kept()}"
        raise Interrupted(f"Stopped{saved}. Resume with: {resume}", folder) from None
