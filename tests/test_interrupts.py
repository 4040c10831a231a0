"""Ctrl-C leaves nothing half done, and works as usual afterwards."""

from __future__ import annotations

import signal
import threading

import pytest

from mnemon.interrupts import all_or_nothing, uninterrupted


@pytest.fixture(autouse=True)
def usual():
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    signal.signal(signal.SIGINT, before)


def press() -> None:
    signal.raise_signal(signal.SIGINT)


def test_what_ends_well_is_not_undone():
    undone = []
    assert all_or_nothing(lambda: 3, lambda: undone.append(1)) == 3
    assert not undone


@pytest.mark.parametrize("error", [ValueError, KeyboardInterrupt, SystemExit])
def test_what_fails_is_undone_and_raised(error):
    undone = []

    def work() -> None:
        raise error

    with pytest.raises(error):
        all_or_nothing(work, lambda: undone.append(1))
    assert undone == [1]


def test_ctrl_c_interrupts_the_work_at_once_and_the_undoing_not_at_all():
    done = []

    def work() -> None:
        press()
        done.append("work")

    def undo() -> None:
        press()
        press()
        done.append("undone")

    with pytest.raises(KeyboardInterrupt):
        all_or_nothing(work, undo)
    assert done == ["undone"]


def test_a_short_work_is_done_before_ctrl_c_is_heeded():
    done = []

    def work() -> None:
        press()
        done.append("work")

    with pytest.raises(KeyboardInterrupt):
        uninterrupted(work)
    assert done == ["work"]


def test_a_short_work_may_fail():
    with pytest.raises(ZeroDivisionError):
        uninterrupted(lambda: 1 / 0)


def test_other_threads_work_without_signals():
    found = []
    thread = threading.Thread(target=lambda: found.append(all_or_nothing(lambda: uninterrupted(lambda: 3), print)))
    thread.start()
    thread.join()
    assert found == [3]


def test_one_within_another_undoes_both():
    undone = []

    def outer() -> None:
        all_or_nothing(press, lambda: undone.append("inner"))

    with pytest.raises(KeyboardInterrupt):
        all_or_nothing(outer, lambda: undone.append("outer"))
    assert undone == ["inner", "outer"]
