"""A line for each trial that has ended; in a terminal, below them, the best trials and the time."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from mnemon.experiments.pace import Pace, as_clock
from mnemon.experiments.screen import can_redraw
from mnemon.results.sweep import COUNTED, SweepRecord, Trial, rank, render_sweep, score

MOST_ROWS = 8
"""Trials that are shown at once, if the terminal is high enough."""


class Leaderboard:
    """Shows the trials of a sweep as they end."""

    def __init__(
        self, record: SweepRecord, console: Console, quiet: bool, clock: Callable[[], float] = time.monotonic
    ):
        self.record, self.console, self.quiet = record, console, quiet
        self.pace = Pace(clock)
        self.trials: Sequence[Trial] = ()
        self._said: set[int] | None = None
        self.live = Live(console=console, get_renderable=self._board, refresh_per_second=1, transient=True)

    def __enter__(self) -> Leaderboard:
        if not self.quiet and can_redraw(self.console):
            self.live.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.live.stop()

    def on_change(self, trials: Sequence[Trial]) -> None:
        """Show the trials; those of the first call are of an earlier time."""
        if self.quiet:
            return
        ended = [trial for trial in trials if trial.state in COUNTED]
        self.trials = trials
        self.pace.see(len(ended), self.record.trials)
        self._say(ended)

    def _say(self, ended: Sequence[Trial]) -> None:
        best = rank(self.trials, self.record.metric)
        if self._said is None:
            self._said = {trial.number for trial in ended}
        for trial in ended:
            if trial.number not in self._said:
                self._said.add(trial.number)
                own = "" if math.isnan(trial.score) else f": {score(trial.score, self.record)}"
                top = f"; the best is {score(best[0].score, self.record)}, trial {best[0].number}" if best else ""
                why = f" ({trial.note})" if trial.note else ""
                self.console.print(
                    f"trial {trial.number}  {trial.state} after {trial.tasks} tasks{own}{why}{top}",
                    highlight=False,
                    soft_wrap=True,
                )

    def _board(self) -> RenderableType:
        """Return the best trials, as many as there is room for, and the time."""
        left = as_clock(self.pace.left)
        said = f"{as_clock(self.pace.passed) or as_clock(0)} passed" + (f", about {left} left" if left else "")
        for most in range(MOST_ROWS, 0, -1):
            board = Group(render_sweep(self.record, self.trials, most), Text(said))
            if len(self.console.render_lines(board)) < self.console.height:
                break
        return board
