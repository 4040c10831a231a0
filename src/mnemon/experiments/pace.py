"""How long something has taken, and about how long it will still take."""

from __future__ import annotations

import math
import time
from collections.abc import Callable

HOURS_SHOWN = 100
"""From so many hours on, minutes and seconds are left out."""


class Pace:
    """Times work of which so much is done; the clock starts when it is first seen."""

    def __init__(self, clock: Callable[[], float] = time.monotonic):
        self._clock = clock
        self._first: tuple[float, float] | None = None
        self._last = (0.0, 0.0, 0.0)
        self._end: float | None = None

    def see(self, done: float, total: float) -> None:
        """Take note of how much is done by now."""
        now = self._clock()
        self._last = (now, done, total)
        self._first = self._first or (now, done)

    def stop(self) -> None:
        """Stop the clock."""
        self._end = self._clock()

    @property
    def passed(self) -> float:
        """Seconds since the work was first seen; NaN before that."""
        if self._first is None:
            return math.nan
        return (self._clock() if self._end is None else self._end) - self._first[0]

    @property
    def left(self) -> float:
        """Seconds that the rest takes at the same pace; NaN while nobody knows, and when the clock has stopped."""
        then, done, total = self._last
        if self._first is None or self._end is not None or done <= self._first[1]:
            return math.nan
        pace = (then - self._first[0]) / (done - self._first[1])
        return max(0.0, pace * (total - done) - (self._clock() - then))


def as_clock(seconds: float) -> str:
    """Show a time as a clock does: 0:05, 12:34, 1:02:03; nothing for NaN."""
    if math.isnan(seconds):
        return ""
    minutes, second = divmod(int(seconds), 60)
    hours, minute = divmod(minutes, 60)
    if hours >= HOURS_SHOWN:
        return f"{hours} h"
    return f"{hours}:{minute:02}:{second:02}" if hours else f"{minute}:{second:02}"
