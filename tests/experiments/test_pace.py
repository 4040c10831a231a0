"""Times that have passed and that are left."""

from __future__ import annotations

import math

import pytest

from mnemon.experiments.pace import Pace, as_clock


class Clock:
    """A clock that a test sets."""

    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_before_it_is_seen_no_time_passes():
    pace, clock = Pace(), Clock()
    assert math.isnan(pace.passed)
    assert math.isnan(pace.left)
    pace = Pace(clock)
    clock.now += 50
    pace.see(10, 100)
    assert pace.passed == 0
    assert math.isnan(pace.left)  # one look shows no pace


def test_the_rest_takes_as_long_as_what_was_seen_being_done():
    pace = Pace(clock := Clock())
    pace.see(10, 100)  # as after a resume: what was done before says nothing
    clock.now += 5
    pace.see(20, 100)
    assert (pace.passed, pace.left) == (5, 40)
    clock.now += 15  # until the next look the time runs on
    assert (pace.passed, pace.left) == (20, 25)
    clock.now += 100
    assert pace.left == 0


def test_a_clock_that_was_stopped_stands_still():
    pace = Pace(clock := Clock())
    pace.see(0, 2)
    clock.now += 5
    pace.see(1, 2)
    pace.stop()
    clock.now += 5
    assert pace.passed == 5
    assert math.isnan(pace.left)


@pytest.mark.parametrize(
    ("seconds", "shown"),
    [
        (0, "0:00"), (59.9, "0:59"), (60, "1:00"), (3599, "59:59"), (3600, "1:00:00"), (359_999, "99:59:59"),
        (360_000, "100 h"), (math.nan, ""),
    ],
)  # fmt: skip
def test_times_are_shown_as_on_a_clock(seconds, shown):
    assert as_clock(seconds) == shown
