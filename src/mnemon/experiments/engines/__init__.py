"""Where jobs run: in worker processes of this machine, or as Ray tasks on many machines."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from mnemon.errors import UsageError
from mnemon.experiments.job import Event, Job, RunContext


class WorkerLost(Exception):  # noqa: N818 (a fate, not a fault of the run)
    """What ran a job was ended from outside: killed, out of memory, a machine that is gone."""


class Ended(NamedTuple):
    """A job that runs no more."""

    job: Job
    error: BaseException | None
    """None if it is finished; `Stopped` if it was asked to stop, `WorkerLost`, a user's error, or a bug of ours."""


class Engine(Protocol):
    """Runs jobs side by side. It is a context: at its end nothing is left running."""

    def __enter__(self) -> Engine: ...

    def __exit__(self, *error: object) -> None: ...

    def room(self) -> int:
        """Return how many more jobs can be started now."""

    def start(self, job: Job) -> None:
        """Start a job, for which there must be room."""

    def stop(self, *numbers: int) -> None:
        """Ask jobs to save and stop: those of these numbers, or all."""

    def poll(self, wait: float) -> tuple[list[Event], list[Ended]]:
        """Return what has happened since; wait at most so many seconds for the end of a job."""


def open_engine(context: RunContext, n_jobs: int) -> Engine:
    """Return the engine that a context names: none for processes of this machine; ray, ray:ADDRESS or ray://HOST:PORT.

    Without a number of workers there are as many as the cluster has cores; here there is one.
    """
    if context.on is None:
        from mnemon.experiments.engines.processes import Processes

        return Processes(context.compute, min(context.workers or 1, n_jobs))
    from mnemon.experiments.engines.ray import RayTasks

    return RayTasks(context.compute, _address(context.on), context.workers)


def check_engine(on: str | None) -> None:
    """Refuse an engine that is not there, before anything is begun."""
    if on is not None:
        from mnemon.experiments.engines.ray import check_cluster

        check_cluster(_address(on))


def _address(on: str) -> str:
    if on != "ray" and not on.startswith("ray:"):
        raise UsageError(f"--on takes ray, ray:ADDRESS or ray://HOST:PORT, not '{on}'.")
    return on if on.startswith("ray://") else on.removeprefix("ray").removeprefix(":")
