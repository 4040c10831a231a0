"""Several seeds of one run, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import queue
import signal
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

from mnemon.errors import UsageError
from mnemon.experiments.run import Place, RunConfig, check, execute, new_folder, resume_config
from mnemon.results.record import RunRecord, find_runs
from mnemon.training.trainer import Progress, Stopped, Watcher


class Event(NamedTuple):
    """Something that happened in a run: a step, or the end of a task."""

    run: int
    n_tasks: int
    task_id: int
    step: int
    terms: dict[str, float]
    row: list[float] | None
    """What was measured after a task; None while it is learned."""


class Job(NamedTuple):
    """One run of a study."""

    number: int
    config: RunConfig
    seed: int
    folder: Path


class _Reporter(Watcher):
    """Hands events on, steps at most five times a second."""

    def __init__(self, run: int, send: Callable[[Event], None]):
        self.run, self.send, self._last = run, send, 0.0

    def on_step(self, progress: Progress, terms: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self._last > 0.2:
            self._last = now
            n_tasks = len(progress.untrained)
            self.send(Event(self.run, n_tasks, progress.task_id, progress.step, terms, None))

    def on_task_end(self, progress: Progress) -> None:
        row = progress.matrix[-1]
        self.send(Event(self.run, len(row), progress.task_id - 1, progress.step, {}, row))


def new_jobs(config: RunConfig, seeds: Sequence[int], out: Path | None, place: Place) -> tuple[Path, list[Job]]:
    """Make the folder of a run, or of several seeds with a folder for each; return it and the jobs."""
    # What can be wrong with settings, data and network shows before a folder is made.
    check(config, place)
    folder = new_folder(out or _unused(Path("runs") / f"{config.preset}-{time.strftime('%Y%m%d-%H%M%S')}"))
    if len(seeds) == 1:
        return folder, [Job(0, config, seeds[0], folder)]
    return folder, [Job(i, config, s, new_folder(folder / f"seed-{s}")) for i, s in enumerate(seeds)]


def resumed_jobs(folder: Path, given: RunConfig | None) -> list[Job]:
    """Return the jobs of a folder's unfinished runs; a config given beside it must be the same."""
    jobs: list[Job] = []
    for run in find_runs(folder):
        config, seed = resume_config(run, given)
        if not RunRecord.read(run).finished:
            jobs.append(Job(len(jobs), config, seed, run))
    return jobs


def _unused(folder: Path) -> Path:
    names = (folder.with_name(f"{folder.name}-{i}") for i in range(2, 1000))
    return folder if not folder.exists() else next(name for name in names if not name.exists())


def run_jobs(
    jobs: Sequence[Job],
    place: Place,
    workers: int,
    on_event: Callable[[Event], None],
    should_stop: Callable[[], bool],
) -> list[RunRecord]:
    """Run all jobs, here if there is one, else in worker processes; raises `Stopped` when asked to stop."""
    if len(jobs) <= 1 or workers == 1:
        return [execute(j.config, j.seed, j.folder, place, _Reporter(j.number, on_event), should_stop) for j in jobs]
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in a broken state
    stop, events = context.Event(), context.Queue()
    with ProcessPoolExecutor(min(workers, len(jobs)), context, _begin_worker, (stop, events)) as pool:
        futures = [pool.submit(_work, job, place) for job in jobs]
        while not all(future.done() for future in futures):
            if should_stop() or any(future.done() and future.exception() for future in futures):
                stop.set()
            _drain(events, on_event, wait=0.1)
    _drain(events, on_event, wait=0.0)
    return [_result(future, job) for future, job in zip(futures, jobs, strict=True)]


def _result(future: Future[RunRecord], job: Job) -> RunRecord:
    try:
        return future.result()
    except UsageError as error:
        raise type(error)(f"seed {job.seed}: {error}") from error


def _drain(events: Any, on_event: Callable[[Event], None], wait: float) -> None:
    try:
        while True:
            on_event(events.get(timeout=wait) if wait else events.get_nowait())
    except queue.Empty:
        pass


_STOP: Any = None
_EVENTS: Any = None


def _begin_worker(stop: Any, events: Any) -> None:
    global _STOP, _EVENTS
    _STOP, _EVENTS = stop, events
    # Ctrl-C reaches the whole group; the parent decides, and tells by the event.
    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _work(job: Job, place: Place) -> RunRecord:
    parent = os.getppid()

    def should_stop() -> bool:
        # An orphan saves and ends, rather than train on unseen.
        return _STOP.is_set() or os.getppid() != parent

    if should_stop():
        raise Stopped
    return execute(job.config, job.seed, job.folder, place, _Reporter(job.number, _EVENTS.put), should_stop)
