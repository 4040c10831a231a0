"""The best trials of a sweep, live in the terminal; without one, a line per trial that has ended."""

from __future__ import annotations

import math
from collections.abc import Sequence
from types import TracebackType

from rich.console import Console
from rich.live import Live

from mnemon.results.sweep import COUNTED, SweepRecord, Trial, ranked, shown


class Leaderboard:
    """Shows the trials of a sweep as they end."""

    def __init__(self, record: SweepRecord, console: Console, quiet: bool):
        self.record, self.console, self.quiet = record, console, quiet
        self.live = Live(console=console, auto_refresh=False, transient=True)
        self._said: set[int] | None = None

    def __enter__(self) -> Leaderboard:
        if not self.quiet and self.console.is_terminal:
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
        if self.console.is_terminal:
            self.live.update(shown(self.record, trials, most=8), refresh=True)
        else:
            self._say(trials)

    def _say(self, trials: Sequence[Trial]) -> None:
        best = ranked(trials, self.record.metric)
        ended = [trial for trial in trials if trial.state in COUNTED]
        if self._said is None:
            self._said = {trial.number for trial in ended}
        for trial in ended:
            if trial.number not in self._said:
                self._said.add(trial.number)
                score = "" if math.isnan(trial.score) else f": {trial.score:.4g}"
                top = f"; the best is {best[0].score:.4g}, trial {best[0].number}" if best else ""
                why = f" ({trial.note})" if trial.note else ""
                self.console.print(
                    f"trial {trial.number}  {trial.state} after {trial.tasks} tasks{score}{why}{top}",
                    highlight=False,
                    soft_wrap=True,
                )
