"""Jobs as Ray tasks, on one machine or many; mnemon and the data must be on each of them.

A task works in the job's folder where its machine can see it (shared storage), and otherwise in a scratch folder
whose files come back at the end. When a worker dies, Ray starts the task again: from the last checkpoint in a shared
folder. Events go through an actor, which also says which tasks are to stop.
"""

from __future__ import annotations

import contextlib
import logging
import math
import os
import pickle
import signal
import socket
import tempfile
import time
import warnings
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from mnemon import extras
from mnemon.errors import UsageError, first_line
from mnemon.experiments.compute import Compute
from mnemon.experiments.engines import Ended, WorkerLost
from mnemon.experiments.job import Event, Job, RunContext
from mnemon.experiments.run import execute
from mnemon.training.trainer import Stopped

RETRIES = 3
"""How often a task is started again when its worker died."""
SECONDS = 5.0
"""How long a cluster may take to answer."""


class RayTasks:
    """An engine of Ray tasks, in the cluster at an address; without one, in a local cluster or one that is there."""

    def __init__(self, compute: Compute, address: str, workers: int | None):
        data = compute.data or os.environ.get("MNEMON_DATA")
        self._compute = replace(compute, data=Path(data).resolve() if data else None)
        self._address, self._workers = address, workers
        self._running: dict[Any, Job] = {}
        self._asked: set[int] = set()
        self._gpus = 0
        """GPUs of each task."""
        self._line: Any = None
        self._left: list[Event] = []
        """Events that came at the very end."""
        self._began = False
        """Whether this engine has joined the cluster, and so leaves it."""

    def __enter__(self) -> RayTasks:
        import ray

        if not ray.is_initialized():
            with _own_signals(), warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    where = self._address or None
                    ray.init(where, log_to_driver=False, logging_level=logging.ERROR, include_dashboard=False)
                except (ConnectionError, RuntimeError, ValueError) as error:
                    raise UsageError(f"Ray could not be started or joined: {first_line(error)}") from error
            self._began = True
        try:
            self._gpus = _gpus(self._compute.device, self._count("GPU"))
        except UsageError:
            self._leave()
            raise
        self._task = ray.remote(num_cpus=1, num_gpus=self._gpus, max_retries=RETRIES)(_work)
        self._line = ray.remote(num_cpus=0, max_restarts=-1)(EventRelay).remote()
        return self

    def __exit__(self, *error: object) -> None:
        import ray

        self.stop()
        if self._running:
            ray.wait(list(self._running), num_returns=len(self._running), timeout=60.0)
        self._left = self._arrived()
        ray.kill(self._line)
        self._leave()

    def _leave(self) -> None:
        import ray

        if self._began:
            ray.shutdown()

    def room(self) -> int:
        """Return how many more tasks the cluster has room for, or the user has asked for."""
        places = min(self._count("CPU"), self._count("GPU") if self._gpus else math.inf)
        return (self._workers or max(int(places), 1)) - len(self._running)

    def _count(self, resource: str) -> float:
        """Count what the whole cluster has of a resource."""
        import ray

        return float(ray.cluster_resources().get(resource, 0))

    def start(self, job: Job) -> None:
        """Give a job to the cluster, with the files that are in its folder."""
        self._asked.discard(job.number)
        # A worker may work elsewhere, and may lack a plugin of the job: so it unpacks the job by itself.
        sent = pickle.dumps(job._replace(folder=job.folder.resolve()))
        self._running[self._task.remote(sent, self._compute, _files(job.folder), self._line)] = job

    def stop(self, *numbers: int) -> None:
        """Leave word for tasks that run, and take back those that wait for a place."""
        import ray

        new = {job.number for job in self._running.values() if not numbers or job.number in numbers} - self._asked
        if not new:
            return
        self._asked |= new
        begun = self._ask("stop", new) or set()
        for task, job in self._running.items():
            if job.number in new - begun:
                ray.cancel(task)

    def poll(self, wait: float) -> tuple[list[Event], list[Ended]]:
        """Return the events that have come and the jobs that have ended."""
        if not self._running:
            return self._left, []
        import ray

        ready = ray.wait(list(self._running), num_returns=1, timeout=wait)[0]
        events = self._arrived()
        return events, [self._ended(task) for task in ready]

    def _ended(self, task: Any) -> Ended:
        import ray
        from ray.exceptions import RayError, RayTaskError, TaskCancelledError

        job, error = self._running.pop(task), None
        try:
            error, files = ray.get(task)
            for name, content in files.items():
                path = job.folder / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(content)
        except TaskCancelledError:
            error = Stopped()
        except RayTaskError as failure:
            error = failure.cause or failure
        except RayError:
            error = WorkerLost()
        return Ended(job, error)

    def _arrived(self) -> list[Event]:
        return [Event(*event) for event in self._ask("take") or []]

    def _ask(self, verb: str, *words: Any) -> Any:
        """Ask the actor; if it is gone, it is begun anew by Ray, and what it held is lost."""
        import ray

        with contextlib.suppress(ray.exceptions.RayError):
            return ray.get(getattr(self._line, verb).remote(*words))


def _gpus(device: str, there: float) -> int:
    """Return how many GPUs a task asks for: without asking it sees none of those that are there."""
    wanted = device.startswith("cuda")
    if wanted and there < 1:  # Ray would wait for one without end
        raise UsageError(f"The Ray cluster has no GPU for --device {device}: use cpu or auto.")
    return int(wanted or (device == "auto" and there >= 1))


def check_cluster(address: str) -> None:
    """Refuse an address where nobody listens: Ray itself would try for minutes."""
    extras.require("ray", "--on ray needs", "ray")
    host, _, port = address.removeprefix("ray://").rpartition(":")
    if not address or address in ("auto", "local"):
        return
    if not host or not port.isdigit():
        raise UsageError(f"The address of a Ray cluster is HOST:PORT, not '{address}'.")
    try:
        socket.create_connection((host, int(port)), timeout=SECONDS).close()
    except (OSError, OverflowError) as error:
        raise UsageError(f"No Ray cluster answers at {address}: {error}. Start one by: ray start --head") from error


@contextlib.contextmanager
def _own_signals() -> Iterator[None]:
    """Keep what Ctrl-C and SIGTERM do here: Ray would put its own in place."""
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


class EventRelay:
    """An actor between the tasks and the one who waits for them."""

    def __init__(self) -> None:
        self.events: list[tuple[Any, ...]] = []
        self.asked: set[int] = set()
        self.begun: set[int] = set()

    def put(self, number: int, event: tuple[Any, ...] | None) -> bool:
        """Take an event of a task, or word that it has begun; return whether it is to stop."""
        self.begun.add(number)
        if event is not None:
            self.events.append(event)
        return number in self.asked

    def take(self) -> list[tuple[Any, ...]]:
        """Hand the events over."""
        events, self.events = self.events, []
        return events

    def stop(self, numbers: set[int]) -> set[int]:
        """Note which tasks are to stop; return those that have begun."""
        self.asked |= numbers
        return self.begun


# In a worker of the cluster


class _EventSender:
    """What a task hears and says; it asks at most five times a second."""

    def __init__(self, line: Any, number: int):
        self._line, self._number = line, number
        self._reply = line.put.remote(number, None)
        self._last, self._stop = time.monotonic(), False

    def send(self, event: Event) -> None:
        """Say something."""
        self._reply = self._line.put.remote(self._number, tuple(event))

    def should_stop(self) -> bool:
        """Hear whether to stop."""
        import ray

        if not self._stop and time.monotonic() - self._last > 0.2:
            self._last = time.monotonic()
            with contextlib.suppress(ray.exceptions.RayError):
                self._stop = bool(ray.get(self._reply))
                self._reply = self._line.put.remote(self._number, None)
        return self._stop


def _work(
    sent: bytes, compute: Compute, files: dict[str, bytes], line: Any
) -> tuple[Exception | None, dict[str, bytes]]:
    """Run a job; return why it did not come to its end, and the files of a scratch folder."""
    warnings.simplefilter("ignore")
    try:
        job: Job = pickle.loads(sent)
    except UsageError as reason:
        return reason, {}
    return _run(job, compute, files, line)


def _run(job: Job, compute: Compute, files: dict[str, bytes], line: Any) -> tuple[Exception | None, dict[str, bytes]]:
    wire = _EventSender(line, job.number)
    with contextlib.ExitStack() as stack:
        folder = job.folder
        if not (shared := folder.exists()):
            folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mnemon-")))
            for name, content in files.items():
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(content)
        error: Exception | None = None
        try:
            execute(
                job._replace(folder=folder),
                RunContext(compute, on_event=wire.send, should_stop=wire.should_stop),
            )
        except (Stopped, UsageError) as reason:
            error = reason
        return error, {} if shared else _files(folder)


def _files(folder: Path) -> dict[str, bytes]:
    found = sorted(path for path in folder.rglob("*") if path.is_file())
    return {path.relative_to(folder).as_posix(): path.read_bytes() for path in found}
