"""How a command runs jobs: with their progress shown, until they are done or stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mnemon.cli.app import console, say
from mnemon.whole_files import is_there

if TYPE_CHECKING:
    from mnemon.cli.options import Computing
    from mnemon.experiments.run import Compute
    from mnemon.experiments.study import Job
    from mnemon.training.distributed import Crew


def run_with_progress(
    jobs: Sequence[Job], compute: Compute, go_on: str, computing: Computing, crew: Crew | None = None
) -> bool:
    """Run the jobs; return whether they were stopped, after having said how to go on."""
    from mnemon.experiments.progress import Display
    from mnemon.experiments.run import stop_on_signal
    from mnemon.experiments.study import run_jobs
    from mnemon.training.distributed import ALONE
    from mnemon.training.trainer import Stopped

    try:
        with stop_on_signal() as should_stop, Display(jobs, console(), computing.quiet) as display:
            workers, on = computing.at_once(), computing.on
            run_jobs(jobs, compute, workers, display.on_event, should_stop, go_on, on, crew or ALONE)
    except (Stopped, KeyboardInterrupt) as stop:
        saved = "everything is saved" if isinstance(stop, Stopped) else f"at once, {_what_is_kept(jobs)}"
        say(f"Stopped; {saved}. Go on with: {go_on}")
        return True
    return False


def _what_is_kept(jobs: Sequence[Job]) -> str:
    from mnemon.training.checkpoint import FILE

    there = any(is_there(job.folder / FILE) for job in jobs)
    return "the last checkpoint is kept" if there else "before the first checkpoint"
