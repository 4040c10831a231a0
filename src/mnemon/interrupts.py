"""Do something whole or not at all, whatever fails and whenever Ctrl-C comes."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable
from types import FrameType
from typing import Any, TypeVar

T = TypeVar("T")


def all_or_nothing(work: Callable[[], T], undo: Callable[[], None]) -> T:
    """Do a work and return what it returns; if it fails or is interrupted, undo it and raise what was raised.

    The undoing cannot be interrupted. This is a function and no context: Ctrl-C may come between the end of a
    `with` block and what follows on it.
    """
    interrupts = _Interrupts(puts_off=False)
    try:
        interrupts.begin()
        try:
            result = work()
            interrupts.put_off()
        except BaseException:
            interrupts.put_off()
            undo()
            raise
        if interrupts.waiting:  # it came when all was done, and before anybody knew
            undo()
    finally:
        interrupts.end()
    interrupts.raise_waiting()
    return result


def uninterrupted(work: Callable[[], T]) -> T:
    """Do a short work and return what it returns; Ctrl-C waits until it is done."""
    interrupts = _Interrupts(puts_off=True)
    try:
        interrupts.begin()
        result = work()
    finally:
        interrupts.end()
    interrupts.raise_waiting()
    return result


class _Interrupts:
    """Passes Ctrl-C on, which raises it; from then on, or when asked to, it is put off."""

    def __init__(self, puts_off: bool) -> None:
        self.waiting: list[tuple[int, FrameType | None]] = []
        self._puts_off = puts_off
        usual = signal.getsignal(signal.SIGINT)
        here = threading.current_thread() is threading.main_thread()  # others see no signals
        self._usual: Callable[[int, FrameType | None], Any] | None = usual if here and callable(usual) else None

    def begin(self) -> None:
        if self._usual is not None:
            signal.signal(signal.SIGINT, self._handle)

    def _handle(self, number: int, frame: FrameType | None) -> None:
        assert self._usual is not None
        if self._puts_off:
            self.waiting.append((number, frame))
        else:
            self._puts_off = True  # what is raised now is followed by the undoing
            self._usual(number, frame)

    def put_off(self) -> None:
        self._puts_off = True

    def end(self) -> None:
        if self._usual is not None:
            signal.signal(signal.SIGINT, self._usual)

    def raise_waiting(self) -> None:
        for number, frame in self.waiting:
            assert self._usual is not None
            self._usual(number, frame)
