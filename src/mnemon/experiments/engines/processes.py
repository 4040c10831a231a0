"""Jobs in worker processes of this machine, one thread each."""

from __future__ import annotations

import multiprocessing
import os
import pickle
import queue
import signal
import threading
from collections.abc import Iterator
from concurrent import futures
from concurrent.futures import Future, ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from typing import Any

from mnemon.allocator import processes_with_huge_pages
from mnemon.experiments.compute import Compute
from mnemon.experiments.engines import Ended, WorkerLost
from mnemon.experiments.engines.main_module import not_imported_again
from mnemon.experiments.job import Event, Job, RunContext
from mnemon.experiments.run import execute
from mnemon.training.trainer import Stopped


class Processes:
    """An engine of worker processes.

    Ctrl-C is decided here, in the parent, and told to the workers by a flag; an orphaned worker saves and ends.
    A worker that is killed takes the others with it, which save first; those that are started next are new.
    """

    def __init__(self, compute: Compute, workers: int):
        self._compute, self._workers = compute, workers
        self._context = multiprocessing.get_context("spawn")  # a fork would copy torch's threads in a broken state
        self._asked = self._context.RawArray("b", workers)
        """For each slot, whether the job in it is asked to stop."""
        self._events = self._context.Queue()
        self._free = list(range(workers))
        self._running: dict[Future[None], tuple[Job, int]] = {}
        self._pool: ProcessPoolExecutor | None = None

    def __enter__(self) -> Processes:
        return self

    def __exit__(self, *error: object) -> None:
        self.stop()
        self._leave_pool()

    def room(self) -> int:
        """Return the number of idle workers."""
        return len(self._free)

    def start(self, job: Job) -> None:
        """Hand a job to an idle worker."""
        sent = pickle.dumps(job)  # here, and read by the worker itself, so that what is wrong with it can be said
        slot = self._free.pop()
        self._asked[slot] = False
        try:
            future = self._submit(sent, slot)
        except BrokenProcessPool:  # a worker was killed while it was idle
            self._leave_pool()
            future = self._submit(sent, slot)
        self._running[future] = job, slot

    def _submit(self, job: bytes, slot: int) -> Future[None]:
        if self._pool is None:
            shared = (self._asked, self._events)
            self._pool = ProcessPoolExecutor(self._workers, self._context, _begin_worker, shared)
        with _signals_held(), processes_with_huge_pages(), not_imported_again():
            return self._pool.submit(_work, job, self._compute, slot)

    def _leave_pool(self) -> None:
        if self._pool is not None:
            self._pool.shutdown()
            self._pool = None

    def stop(self, *numbers: int) -> None:
        """Raise the flags of jobs."""
        for job, slot in self._running.values():
            if not numbers or job.number in numbers:
                self._asked[slot] = True

    def poll(self, wait: float) -> tuple[list[Event], list[Ended]]:
        """Return the events that have come and the jobs that have ended."""
        ended = []
        for future in futures.wait(self._running, wait, futures.FIRST_COMPLETED).done:
            job, slot = self._running.pop(future)
            self._free.append(slot)
            error = future.exception()
            ended.append(Ended(job, WorkerLost() if isinstance(error, BrokenProcessPool) else error))
        if any(isinstance(one.error, WorkerLost) for one in ended):
            self._leave_pool()
        return self._arrived(), ended

    def _arrived(self) -> list[Event]:
        events = []
        try:
            while True:
                events.append(self._events.get_nowait())
        except queue.Empty:
            return events


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
_ASKED: Any = None
_EVENTS: Any = None
_LEAVE = threading.Event()
"""Set when the worker is of no use any more: it was told to end, or its parent is gone."""
_WORKING = threading.Lock()


def _begin_worker(asked: Any, events: Any) -> None:
    global _ASKED, _EVENTS
    _ASKED, _EVENTS = asked, events
    # Ctrl-C reaches the whole group; the parent decides, and tells by the flag.
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


def _work(job: bytes, compute: Compute, slot: int) -> None:
    def should_stop() -> bool:
        return bool(_ASKED[slot]) or _LEAVE.is_set()

    with _WORKING:
        if should_stop():
            raise Stopped
        execute(pickle.loads(job), RunContext(compute, on_event=_EVENTS.put, should_stop=should_stop))
