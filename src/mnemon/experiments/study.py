"""Several runs, such as seeds of one experiment, each in a process of its own."""

from __future__ import annotations

import multiprocessing
import os
import queue
import shlex
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

from mnemon.errors import TrainingError, UsageError
from mnemon.experiments.preset import Preset
from mnemon.experiments.run import Place, RunConfig, begin, execute, new_folder, resume_config
from mnemon.results.comparison import is_comparison
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.tables import check_same_experiment
from mnemon.training.trainer import Progress, Stopped, Watcher


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


class Job(NamedTuple):
    """One run of a study."""

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


class StudyError(TrainingError):
    """Runs that could not go on, while the others did."""

    def __init__(self, failures: Failures, n_jobs: int, folder: Path):
        self.failures = failures
        job, error = failures[0]
        what = "runs" if job.label else "seeds"
        more = f" {len(failures)} of {n_jobs} {what} failed." if len(failures) > 1 else ""
        super().__init__(f"{job.title}: {error}{more} All {what} are kept in {folder}.")


Failures = list[tuple[Job, UsageError]]


class _Reporter(Watcher):
    """Hands events on, steps at most five times a second."""

    def __init__(self, run: int, send: Callable[[Event], None]):
        self.run, self.send, self._last = run, send, 0.0

    def on_step(self, progress: Progress, terms: dict[str, float]) -> None:
        now = time.monotonic()
        if now - self._last > 0.2:
            self._last = now
            n_tasks = len(progress.untrained)
            self.send(Event(self.run, n_tasks, progress.task_id, progress.step, terms, None, "", progress.steps))

    def on_task_end(self, progress: Progress) -> None:
        row = progress.matrix[-1]
        self.send(Event(self.run, len(row), progress.task_id - 1, progress.step, {}, row, "", progress.steps))


def new_jobs(config: RunConfig, seeds: Sequence[int], out: Path | None, place: Place) -> tuple[Path, list[Job]]:
    """Make the folder of a run, or of several seeds with a folder for each; return it and the jobs."""
    # What can be wrong with settings, data and network shows before a folder is made.
    record = begin(config, seeds[0], place)
    folder = new_folder(out or dated_folder(config.preset))
    if len(seeds) == 1:
        jobs = [Job(0, config, seeds[0], folder)]
    else:
        jobs = [Job(i, config, seed, new_folder(folder / f"seed-{seed}")) for i, seed in enumerate(seeds)]
    for job in jobs:
        keep_begun(job, record)
    return folder, jobs


def keep_begun(job: Job, record: RunRecord) -> None:
    """Write the empty record of a job: with it a run can be resumed even if it was stopped before its turn came."""
    replace(record, seed=job.seed).write(job.folder)


def resumed_jobs(
    folder: Path, preset: Preset | None = None, overrides: Sequence[str] = (), label: str = ""
) -> list[Job]:
    """Return the jobs of a folder's unfinished runs; settings given beside it must be the same."""
    if is_comparison(folder):
        raise UsageError(
            f"{folder} holds a comparison of methods. Go on with: mnemon compare --resume {shlex.quote(str(folder))}"
        )
    records = {path: RunRecord.read(path) for path in find_runs(folder)}
    check_same_experiment(list(records.values()))
    configs = {path: resume_config(record, preset, overrides) for path, record in records.items()}
    left = [path for path, record in records.items() if not record.finished]
    return [Job(i, configs[path], records[path].seed, path, label) for i, path in enumerate(left)]


def dated_folder(name: str) -> Path:
    """Return a folder for what is begun now, named after it and the time, that does not exist yet."""
    folder = Path("runs") / f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
    names = (folder.with_name(f"{folder.name}-{i}") for i in range(2, 1000))
    return folder if not folder.exists() else next(name for name in names if not name.exists())


def run_jobs(
    jobs: Sequence[Job],
    place: Place,
    workers: int,
    on_event: Callable[[Event], None],
    should_stop: Callable[[], bool],
    go_on: str = "mnemon run --resume FOLDER",
) -> None:
    """Run all jobs, here or in worker processes; raises `Stopped` when asked to stop.

    A run that fails does not stop the others; the error comes when they are done. `go_on` is the command that an
    error names to go on with what is left.
    """
    if len(jobs) <= 1 or workers == 1:
        failures = _run_here(jobs, place, on_event, should_stop)
    else:
        failures = _run_in_workers(jobs, place, workers, on_event, should_stop, go_on)
    if not failures:
        return
    job, error = failures[0]
    if len(jobs) == 1 and not job.label:
        raise error
    folder = Path(os.path.commonpath([job.folder.parent for job in jobs]))
    raise StudyError(failures, len(jobs), folder) from error


def _failed(job: Job, error: UsageError) -> Event:
    return Event(job.number, 0, 0, 0, {}, None, str(error))


def _run_here(
    jobs: Sequence[Job], place: Place, on_event: Callable[[Event], None], should_stop: Callable[[], bool]
) -> Failures:
    failures: Failures = []
    for job in jobs:
        try:
            execute(job.config, job.seed, job.folder, place, _Reporter(job.number, on_event), should_stop)
        except UsageError as error:
            failures.append((job, error))
            on_event(_failed(job, error))
    return failures


def _run_in_workers(
    jobs: Sequence[Job],
    place: Place,
    workers: int,
    on_event: Callable[[Event], None],
    should_stop: Callable[[], bool],
    go_on: str,
) -> Failures:
    context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in a broken state
    stop, events = context.Event(), context.Queue()
    failures: Failures = []
    others: list[BaseException] = []
    with ProcessPoolExecutor(min(workers, len(jobs)), context, _begin_worker, (stop, events)) as pool:
        try:
            with _signals_held():
                waiting = {pool.submit(_work, job, place): job for job in jobs}
            while waiting:
                if should_stop() or others:
                    stop.set()
                _drain(events, on_event, wait=0.1)
                for future in [future for future in waiting if future.done()]:
                    job, error = waiting.pop(future), future.exception()
                    if isinstance(error, UsageError):
                        failures.append((job, error))
                        on_event(_failed(job, error))
                    elif error is not None:
                        others.append(error)
        finally:
            stop.set()
    _drain(events, on_event, wait=0.0)
    _raise_first(others, should_stop(), go_on)
    return failures


def _raise_first(errors: list[BaseException], asked_to_stop: bool, go_on: str) -> None:
    """Raise what ended the workers: a bug of ours, a lost process, or a wish to stop."""
    for error in errors:
        if not isinstance(error, Stopped | BrokenProcessPool):
            raise error
    for error in errors:
        if isinstance(error, Stopped) or asked_to_stop:
            raise Stopped from error
        raise TrainingError(
            "A worker process was ended from outside, perhaps for lack of memory. Go on from the last checkpoints, "
            f"with fewer --workers if memory is short: {go_on}"
        ) from error


def _drain(events: Any, on_event: Callable[[Event], None], wait: float) -> None:
    """Hand on the events that are there; wait only for the first, or a steady stream would never let go."""
    try:
        on_event(events.get(timeout=wait) if wait else events.get_nowait())
        while True:
            on_event(events.get_nowait())
    except queue.Empty:
        pass


@contextmanager
def _signals_held() -> Iterator[None]:
    """Hold Ctrl-C and SIGTERM back; processes that are started meanwhile hold them until they are ready."""
    if not hasattr(signal, "pthread_sigmask"):  # Windows
        yield
        return
    signal.pthread_sigmask(signal.SIG_BLOCK, _SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)


# In a worker process

_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_STOP: Any = None
_EVENTS: Any = None
_LEAVE = threading.Event()
"""Set when the worker is of no use any more: it was told to end, or its parent is gone."""
_WORKING = threading.Lock()


def _begin_worker(stop: Any, events: Any) -> None:
    global _STOP, _EVENTS
    _STOP, _EVENTS = stop, events
    # Ctrl-C reaches the whole group; the parent decides, and tells by the event.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, lambda number, frame: _LEAVE.set())
    if hasattr(signal, "pthread_sigmask"):
        signal.pthread_sigmask(signal.SIG_UNBLOCK, _SIGNALS)
    threading.Thread(target=_leave_in_time, daemon=True).start()


def _leave_in_time() -> None:
    """End the process when it is of no use: the run saves first, and nobody waits for an answer."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    while parent.is_alive() and not _LEAVE.wait(0.5):
        pass
    _LEAVE.set()
    with _WORKING:
        os._exit(1)


def _work(job: Job, place: Place) -> None:
    def should_stop() -> bool:
        return _STOP.is_set() or _LEAVE.is_set()

    with _WORKING:
        if should_stop():
            raise Stopped
        execute(job.config, job.seed, job.folder, place, _Reporter(job.number, _EVENTS.put), should_stop)
