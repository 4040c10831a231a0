"""Ctrl-C leaves nothing half done, and works as usual afterwards."""

from __future__ import annotations

import itertools
import signal
import threading
import time

import pytest

from benchmarks.fuzz.interrupts import interrupted
from mnemon import interrupts
from mnemon.interrupts import all_or_nothing, between, taken, uninterrupted


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


# Before and after a work


def test_what_follows_is_told_whether_the_work_was_done():
    told = []
    assert between(lambda asked: True, lambda: 3, told.append) == 3
    for failing in (press, lambda: 1 / 0):
        with pytest.raises((KeyboardInterrupt, ZeroDivisionError)):
            between(lambda asked: True, failing, told.append)
    assert told == [True, False, False]


def test_ctrl_c_before_a_work_waits_until_what_it_needs_is_there_and_then_it_is_not_begun():
    done = []

    def before(asked) -> bool:
        press()
        done.append(asked())
        return True

    with pytest.raises(KeyboardInterrupt):
        between(before, lambda: done.append("work"), lambda finished: done.append(finished))
    assert done == [True, False]


def test_ctrl_c_ends_the_waiting_for_a_lock():
    lock, after = threading.Lock(), []
    lock.acquire()
    threading.Timer(0.1, press_from_elsewhere).start()
    with pytest.raises(KeyboardInterrupt):
        between(lambda asked: taken(lock, asked), lambda: after.append("work"), after.append)
    assert not after


def press_from_elsewhere() -> None:
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)


def test_a_handler_that_only_takes_note_hears_every_ctrl_c_and_nothing_is_undone():
    heard, undone = [], []
    signal.signal(signal.SIGINT, lambda *_: heard.append(time.monotonic()))

    def work() -> int:
        press()
        assert len(heard) == 1  # at once
        press()
        assert len(heard) == 2
        return 3

    assert all_or_nothing(work, lambda: undone.append(1)) == 3
    assert uninterrupted(lambda: press() or 4) == 4
    assert (len(heard), undone) == (3, [])
    signal.signal(signal.SIGINT, signal.default_int_handler)


def test_an_error_while_ctrl_c_waits_does_not_swallow_it():
    def undo() -> None:
        press()

    with pytest.raises(KeyboardInterrupt):
        all_or_nothing(lambda: 1 / 0, undo)


def do_within_a_lock(lock: threading.RLock, done: list[str], fails: bool) -> None:
    """Change something all or not at all, twice within each other, and holding a lock."""

    def inner() -> None:
        done.append("inner")

    def work() -> None:
        done.append("outer")
        all_or_nothing(inner, lambda: done.remove("inner") if "inner" in done else None)
        if fails:
            raise ZeroDivisionError

    def change() -> None:
        all_or_nothing(work, lambda: done.clear())

    between(lambda asked: taken(lock, asked), change, lambda finished: lock.release())


def lines_of_it(fails: bool, *moments: int) -> tuple[int, list[str], str, bool]:
    """Return how many lines it has, what was done, what was raised, and whether the lock is free again."""
    lock, done, raised, n_lines = threading.RLock(), [], "", 0
    try:
        n_lines = interrupted(lambda: do_within_a_lock(lock, done, fails), interrupts.__file__, *moments)
    except (KeyboardInterrupt, ZeroDivisionError) as error:
        raised = type(error).__name__
    return n_lines, done, raised, not lock._is_owned()


@pytest.mark.parametrize("fails", [False, True])
def test_wherever_and_however_often_ctrl_c_comes_all_is_done_or_nothing_and_the_lock_is_free(fails):
    n_lines = lines_of_it(fails=False)[0]
    assert n_lines > 100
    once = [(moment,) for moment in range(n_lines)]
    thrice = [(i, i + j, i + j + k) for i in range(n_lines) for j in range(1, 5) for k in range(1, 3)]
    for moments in (*once, *itertools.combinations(range(n_lines), 2), *thrice):
        _, done, raised, free = lines_of_it(fails, *moments)
        assert free, moments
        assert done in ([], *([] if fails else [["outer", "inner"]])), moments
        assert raised == "KeyboardInterrupt" or (fails and raised), moments
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler, moments
