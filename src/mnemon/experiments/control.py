"""Ctrl-C: the first one asks to stop, and everything is saved; a second one stops at once."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

StopFlag = Callable[[], bool]
"""Says whether somebody asked to stop."""


def never() -> bool:
    """Say that nobody asked to stop."""
    return False


@contextmanager
def stop_on_signal() -> Iterator[StopFlag]:
    """Turn the first Ctrl-C (or SIGTERM) into a request to stop; a second one stops at once.

    Only the main thread is told of signals: in another one nobody asks to stop.
    """
    if threading.current_thread() is not threading.main_thread():
        yield never
        return
    asked = False

    def handler(number: int, frame: Any) -> None:
        nonlocal asked
        if asked:
            raise KeyboardInterrupt
        asked = True

    before = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield lambda: asked
    finally:
        for number, old in before.items():
            signal.signal(number, old)
