"""What is shown while a sweep goes on."""

from __future__ import annotations

import io
import math
import re

import pytest
from rich.console import Console

from mnemon.experiments.sweep.leaderboard import MOST_ROWS, Leaderboard
from mnemon.results.sweep import SweepRecord, Trial

SETTINGS = {
    "method.hypernet.hidden": [100, 75, 50],
    "method.hypernet.chunk": 2000,
    "method.hypernet.embedding_size": 96,
    "method.hypernet.chunk_embedding_size": 96,
    "optimizer.lr": 1.234567e-4,
    "method.hypernet.activation": "relu",
}


def trials(n: int) -> list[Trial]:
    ended = [Trial(i, "finished", 90 + i / 4, 5, 1.0, "f", "", SETTINGS) for i in range(n)]
    return [*ended, Trial(n, "running", math.nan, 1, 1.0, "f", "", {})]


class Shown:
    """A leaderboard in a terminal, and its clock."""

    def __init__(self, width: int = 80, height: int = 24, terminal: bool = True, quiet: bool = False):
        self.text, self.now = io.StringIO(), 0.0
        self.size = {"width": width, "height": height}
        record = SweepRecord("mine", "", "held-out", "accuracy", 0, "s", "", "h", 50, {"training.steps": 5})
        console = Console(file=self.text, force_terminal=terminal, **self.size)
        self.board = Leaderboard(record, console, quiet, lambda: self.now)

    @property
    def lines(self) -> list[str]:
        """What stands at the bottom of the terminal now."""
        console = Console(file=io.StringIO(), **self.size)
        console.print(self.board._board())
        return [line.rstrip() for line in console.file.getvalue().splitlines()]


@pytest.mark.parametrize("terminal", [True, False])
def test_a_trial_that_has_ended_has_a_line(terminal):
    shown = Shown(terminal=terminal)
    with shown.board:
        shown.board.on_change(trials(1))  # of an earlier time
        shown.board.on_change(trials(3))
        shown.board.on_change(trials(3))
    lines = re.split(r"[\r\n]+", re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", shown.text.getvalue()))
    assert [line for line in lines if line.startswith("trial ")] == [
        "trial 1  finished after 5 tasks: 90.25; the best is 90.50, trial 2",
        "trial 2  finished after 5 tasks: 90.50; the best is 90.50, trial 2",
    ]


def test_quiet_shows_nothing():
    shown = Shown(quiet=True)
    with shown.board:
        shown.board.on_change(trials(3))
    assert shown.text.getvalue() == ""


@pytest.mark.parametrize("height", [16, 24, 50])
@pytest.mark.parametrize("width", [60, 80, 120])
def test_settings_and_times_are_shown_whole_at_any_size(width, height):
    shown = Shown(width, height)
    shown.board.on_change(trials(0))
    shown.now = 600
    shown.board.on_change(trials(12))
    lines = shown.lines
    assert max(map(len, lines)) <= width
    assert len(lines) < height
    assert lines[-2:] == ["12 of 50 trials: 12 finished, 1 running.", "10:00 passed, about 31:40 left"]
    words = " ".join(lines).split()
    for name, value in (("chunk_embedding_size", "96"), ("lr", "0.000123"), ("activation", "relu")):
        assert (name in words and value in words) or f"{name}={value}" in [word.strip(",") for word in words]
    scores = [line.split()[0] for line in lines if line.split()[1:2] and line.split()[1].startswith("92.")]
    assert scores == ["11", "10", "9", "8"][: len(scores)] != []
    assert len(scores) == 4 or height < 50


def test_there_are_at_most_so_many_rows():
    shown = Shown(120, 100)
    shown.board.on_change(trials(40))
    assert sum(line.endswith("relu") for line in shown.lines) == MOST_ROWS
    assert shown.lines[-1] == "0:00 passed"
