"""Do something whole or not at all, whatever fails and whenever Ctrl-C comes.

These are functions and no contexts: Ctrl-C may come between the end of a `with` block and what follows on it, and
within the methods of a context itself.
"""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, Protocol, TypeVar

T = TypeVar("T")
Asked = Callable[[], bool]
"""Says whether Ctrl-C was pressed and waits to be heeded."""
POLL = 0.05
"""Seconds between two looks whether it was, while something is waited for."""


class Lock(Protocol):
    """What can be held by one thread at a time."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:
        """Take it, and return whether that was possible in time."""


def between(before: Callable[[Asked], bool], work: Callable[[], T], after: Callable[[bool], object]) -> T:
    """Do a work and return what it returns; `after` follows whenever `before` has been done.

    Neither of them can be interrupted. `before` may wait for something, must stop waiting when Ctrl-C was pressed,
    and returns whether it has what it waited for. `after` is told whether the work was done.
    """
    interrupts, begun, done = _Interrupts(), False, False
    try:
        try:
            interrupts.begin()
            while not begun:
                begun = before(lambda: bool(interrupts.waiting))
                interrupts.raise_waiting()  # or somebody else takes note of it, and there is more to wait for
            interrupts.pass_on()
            result = work()
            interrupts.put_off()
            interrupts.raise_waiting()  # it came when all was done, and before anybody knew
            done = True
        finally:  # at most one is passed on: if it comes on this very line, the next `finally` is safe
            interrupts.put_off()
    finally:
        try:
            if begun:
                after(done)
        finally:
            interrupts.end()
    return result


def all_or_nothing(work: Callable[[], T], undo: Callable[[], object]) -> T:
    """Do a work and return what it returns; if it fails or is interrupted, undo it and raise what was raised."""
    return between(lambda asked: True, work, lambda done: None if done else undo())


def uninterrupted(work: Callable[[], T]) -> T:
    """Do a short work and return what it returns; Ctrl-C waits until it is done."""
    interrupts = _Interrupts()
    try:
        interrupts.begin()
        return work()
    finally:
        interrupts.end()


def taken(lock: Lock, asked: Asked) -> bool:
    """Wait for a lock, and return whether it was taken; not if Ctrl-C was pressed first."""
    while not lock.acquire(timeout=POLL):
        if asked():
            return False
    return True


class _Interrupts:
    """Puts Ctrl-C off, or passes one on, which raises it; all others wait until they are raised."""

    def __init__(self) -> None:
        self.waiting: list[tuple[int, FrameType | None]] = []
        self._passes_on = False
        usual = signal.getsignal(signal.SIGINT)
        here = threading.current_thread() is threading.main_thread()  # others see no signals
        self._usual: Callable[[int, FrameType | None], Any] | None = usual if here and callable(usual) else None

    def begin(self) -> None:
        """From now on Ctrl-C is ours, and is put off."""
        if self._usual is not None:
            signal.signal(signal.SIGINT, self._handle)

    def pass_on(self) -> None:
        """From now on pass one on; those that wait, at once."""
        self._passes_on = True
        self.raise_waiting()

    def put_off(self) -> None:
        """From now on put it off."""
        self._passes_on = False

    def end(self) -> None:
        """Leave Ctrl-C to whom it was before, and raise those that wait."""
        if self._usual is not None:
            signal.signal(signal.SIGINT, self._usual)
        self.raise_waiting()

    def raise_waiting(self) -> None:
        while self.waiting:
            self._raise(*self.waiting.pop(0))

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if self._passes_on:
            self._raise(number, frame)
        else:
            self.waiting.append((number, frame))

    def _raise(self, number: int, frame: FrameType | None) -> None:
        assert self._usual is not None
        passed_on, self._passes_on = self._passes_on, False  # what is raised now is followed by `after`
        self._usual(number, frame)
        self._passes_on = passed_on  # nothing was raised: somebody else took note of it
