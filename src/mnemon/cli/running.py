"""How a command runs jobs: with their progress shown, until they are done or stopped."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from mnemon.cli.app import console, say

if TYPE_CHECKING:
    from mnemon.cli.options import Computing
    from mnemon.experiments.run import Place
    from mnemon.experiments.study import Job
    from mnemon.training.distributed import Crew


def stopped(jobs: Sequence[Job], place: Place, go_on: str, computing: Computing, crew: Crew | None = None) -> bool:
    """Run the jobs; return whether they were stopped, after having said how to go on."""
    from mnemon.experiments.progress import Display
    from mnemon.experiments.run import stop_on_signal
    from mnemon.experiments.study import run_jobs
    from mnemon.training.distributed import ALONE
    from mnemon.training.trainer import Stopped

    try:
        with stop_on_signal() as should_stop, Display(jobs, console(), computing.quiet) as display:
            workers, on = computing.at_once(), computing.on
            run_jobs(jobs, place, workers, display.on_event, should_stop, go_on, on, crew or ALONE)
    except (Stopped, KeyboardInterrupt) as stop:
        saved = "everything is saved" if isinstance(stop, Stopped) else "at once, the last checkpoint is kept"
        say(f"Stopped; {saved}. Go on with: {go_on}")
        return True
    return False
