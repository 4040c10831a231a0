"""Run many cases of an attack in processes of their own, each within limits of time and memory; collect faults."""

from __future__ import annotations

import collections
import multiprocessing
import resource
import signal
import tempfile
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SECONDS, BYTES = 5.0, 1 << 30
"""What a case may take; CPU seconds do not depend on what else the machine does."""
WAITING = 60.0
"""Seconds of the clock that a case may take at least: it may wait for other processes, or for ever."""
KEPT = 20
"""Faults that are shown in full."""

Prepare = Callable[[Path], Any]
"""Makes what the cases of a process work on, in a folder of its own."""
Case = Callable[[Any, int], str]
"""Does one case and says in a word how it ended; anything that it raises is a fault."""


class TooLong(BaseException):
    """A case took longer than it may; no error, so that nobody catches it on the way."""


@contextmanager
def _limited(seconds: float) -> Iterator[None]:
    """Raise `TooLong` after so many CPU seconds, or when a case waits for ever."""
    limits = (
        (signal.ITIMER_PROF, signal.SIGPROF, seconds, "CPU seconds"),
        (signal.ITIMER_REAL, signal.SIGALRM, max(seconds, WAITING), "seconds"),
    )

    def late(number: int, frame: Any) -> None:
        raise TooLong(next(f"it took more than {limit:g} {unit}" for _, n, limit, unit in limits if n == number))

    before = [(number, signal.signal(number, late)) for _, number, _, _ in limits]
    for timer, _, limit, _ in limits:
        signal.setitimer(timer, limit)
    try:
        yield
    finally:
        for timer, _, _, _ in limits:
            signal.setitimer(timer, 0)
        for number, handler in before:
            signal.signal(number, handler)


@dataclass
class Report:
    """How the cases of an attack ended."""

    name: str
    endings: collections.Counter[str] = field(default_factory=collections.Counter)
    faults: list[tuple[int, str]] = field(default_factory=list)
    seconds: float = 0.0
    """CPU time of all processes together."""

    def lines(self) -> list[str]:
        """Return the report in words: a summary, then the first faults."""
        n = sum(self.endings.values())
        endings = ", ".join(f"{word} {count:,}" for word, count in sorted(self.endings.items()))
        head = f"{self.name}: {n:,} cases, {len(self.faults)} faults, {self.seconds:.0f} CPU s ({endings})"
        return [head, *(f"  case {number}: {what}" for number, what in sorted(self.faults)[:KEPT])]


def attack(
    name: str, prepare: Prepare, case: Case, numbers: Sequence[int], workers: int = 2, seconds: float = SECONDS
) -> Report:
    """Do the cases with these numbers; a process that dies is a fault of the case that it was at, and is replaced."""
    report, started = Report(name), _processor_seconds()
    context = multiprocessing.get_context("spawn")
    with tempfile.TemporaryDirectory(prefix="mnemon-fuzz-") as folder:
        parts = [_Part(list(numbers[i::workers]), Path(folder) / f"{i}") for i in range(workers)]
        while any(part.left for part in parts):
            for part in parts:
                part.keep_going(context, prepare, case, seconds, report)
            time.sleep(0.05)
        for part in parts:
            part.end()
    report.seconds = _processor_seconds() - started
    return report


def attack_here(
    name: str, prepare: Prepare, case: Case, numbers: Sequence[int], folder: Path, seconds: float = SECONDS
) -> Report:
    """Do some cases in this process, without limits of memory: for the test suite."""
    report, started = Report(name), _processor_seconds()
    prepared = prepare(folder)
    for number in numbers:
        ending, fault = _tried(prepared, case, number, seconds)
        report.endings[ending] += 1
        report.faults += [(number, fault)] if fault else []
    report.seconds = _processor_seconds() - started
    return report


def _processor_seconds() -> float:
    """Return what this process and those that it has waited for have computed."""
    found = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return sum(usage.ru_utime + usage.ru_stime for usage in found)


class _Part:
    """The cases of one worker."""

    def __init__(self, numbers: list[int], folder: Path):
        self.left, self.folder = numbers, folder
        self.process: Any = None
        self.endings: Any = None

    def keep_going(self, context: Any, prepare: Prepare, case: Case, seconds: float, report: Report) -> None:
        if not self.left:
            return
        if self.process is None:
            self.folder.mkdir(exist_ok=True)
            self.endings, send = context.Pipe(duplex=False)
            arguments = (prepare, case, list(self.left), self.folder, send, seconds)
            self.process = context.Process(target=_work, args=arguments, daemon=False)
            self.process.start()
            send.close()
        alive = self.process.is_alive()
        self._collect(report)
        if not alive and self.left:
            code = self.process.exitcode
            report.endings["died"] += 1
            report.faults.append((self.left.pop(0), f"the process died with exit code {code}"))
            self.process = None

    def end(self) -> None:
        """Wait for the process, so that its seconds count."""
        if self.process is not None:
            self.process.join()

    def _collect(self, report: Report) -> None:
        while self.endings.poll():
            try:
                number, ending, fault = self.endings.recv()
            except EOFError:
                return
            self.left.remove(number)
            report.endings[ending] += 1
            report.faults += [(number, fault)] if fault else []


def _work(prepare: Prepare, case: Case, numbers: list[int], folder: Path, send: Any, seconds: float) -> None:
    import torch

    torch.set_num_threads(1)
    prepared = prepare(folder)
    _, most = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (_address_space() + BYTES, most))
    for number in numbers:
        send.send((number, *_tried(prepared, case, number, seconds)))


def _address_space() -> int:
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    return pages * resource.getpagesize()


def _tried(prepared: Any, case: Case, number: int, seconds: float) -> tuple[str, str]:
    """Return how a case ended, and what is wrong with that, if anything is."""
    try:
        with _limited(seconds):
            return case(prepared, number), ""
    except TooLong as error:
        return "too long", str(error)
    except BaseException as error:
        where = traceback.extract_tb(error.__traceback__)[-1]
        place = f"{Path(where.filename).name}:{where.lineno}"
        return "fault", f"{type(error).__name__} at {place}: {str(error)[:300]}"
