"""How a user follows what is done: in a terminal or a notebook, by lines of a log, or not at all."""

from __future__ import annotations

import importlib.util
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from rich.console import Console, RenderableType

from mnemon.printable import without_passwords
from mnemon.results.terminal.console import Terminal

if TYPE_CHECKING:
    from mnemon.experiments.job import Event, Job
    from mnemon.results.sweep import SweepRecord, Trial

LOG = logging.getLogger("mnemon")
SECONDS = 30.0
"""Between two lines of a log, but for those that say how a run has ended."""


class RunsView(Protocol):
    """Shows runs while they are under way."""

    def __enter__(self) -> RunsView: ...

    def __exit__(self, *error: Any) -> None: ...

    def on_event(self, event: Event) -> None:
        """Take note of an event of a run."""


class TrialsView(Protocol):
    """Shows the trials of a sweep while it is under way."""

    def __enter__(self) -> TrialsView: ...

    def __exit__(self, *error: Any) -> None: ...

    def on_change(self, trials: Sequence[Trial]) -> None:
        """Take note of what the trials have come to."""


class Screen:
    """What a user sees: of this one nothing, and others add to it. Its words are those of Python."""

    def say(self, text: str) -> None:
        """Say something in a line of its own."""

    def show(self, result: RenderableType, remarks: Sequence[str] = ()) -> None:
        """Show what came out, where it is not returned to somebody who looks at it."""

    def runs(self, jobs: Sequence[Job]) -> RunsView:
        """Return what shows runs while they are under way."""
        return _Unseen()

    def trials(self, record: SweepRecord) -> TrialsView:
        """Return what shows the trials of a sweep while it is under way."""
        return _Unseen()

    def saved(self, folder: Path) -> None:
        """Say where everything is."""
        self.say(f"Saved to {folder}")

    def option(self, name: str) -> str:
        """Return what a user knows an option by."""
        return name

    def call(self, command: str, names: Sequence[str], options: Mapping[str, object]) -> str:
        """Return what to write to do something: `mnemon.run(resume='runs/one')`."""
        words = [*map(repr, names), *(f"{name}={_plain(value)!r}" for name, value in options.items())]
        return f"mnemon.{command}({', '.join(words)})"


def _plain(value: object) -> object:
    return str(value) if isinstance(value, Path) else value


class _Unseen:
    """Shows nothing."""

    def __enter__(self) -> _Unseen:
        return self

    def __exit__(self, *error: Any) -> None:
        pass

    def on_event(self, event: Event) -> None:
        pass

    def on_change(self, trials: Sequence[Trial]) -> None:
        pass


class LiveScreen(Screen):
    """A terminal or a notebook: bars that move, and a line for each task that was learned."""

    def __init__(self, console: Console, quiet: bool = False):
        self.console, self.quiet = console, quiet

    def say(self, text: str) -> None:
        self.console.print(without_passwords(text), soft_wrap=True)

    def runs(self, jobs: Sequence[Job]) -> RunsView:
        from mnemon.experiments.progress import Display

        return Display(jobs, self.console, self.quiet)

    def trials(self, record: SweepRecord) -> TrialsView:
        from mnemon.experiments.sweep.leaderboard import Leaderboard

        return Leaderboard(record, self.console, self.quiet)


class LogScreen(Screen):
    """A script without a terminal: a line now and then, through `logging`."""

    def say(self, text: str) -> None:
        LOG.info("%s", without_passwords(text))

    def runs(self, jobs: Sequence[Job]) -> RunsView:
        return _LoggedRuns(jobs)

    def trials(self, record: SweepRecord) -> TrialsView:
        return _LoggedTrials(record)


class _LoggedRuns(_Unseen):
    """Says now and then how far runs are, and of each when it has ended."""

    def __init__(self, jobs: Sequence[Job], clock: Callable[[], float] = time.monotonic):
        from mnemon.experiments.progress import RunState, measured

        self._runs = {job.number: RunState(job, clock) for job in jobs}
        self._measured, self._clock, self._last = measured, clock, clock()

    def on_event(self, event: Event) -> None:
        run = self._runs[event.run]
        run.see(event)
        ended = bool(event.failure) or (event.row is not None and event.task_id + 1 == event.n_tasks)
        if not ended and self._clock() - self._last < SECONDS:
            return
        self._last = self._clock()
        if event.failure:
            LOG.warning("%s failed: %s", run.title, event.failure)
        elif event.row is not None:
            LOG.info("%s: task %s learned: %s", run.title, run.task, self._measured(event))
        else:
            LOG.info("%s: task %s, %.0f %% done", run.title, run.task, 100 * run.done / max(run.total, 1))


class _LoggedTrials(_Unseen):
    """Says now and then how many trials have ended, and the best score so far."""

    def __init__(self, record: SweepRecord):
        self._record, self._last = record, time.monotonic()

    def on_change(self, trials: Sequence[Trial]) -> None:
        from mnemon.results.sweep import count_trials, rank, score

        if time.monotonic() - self._last < SECONDS:
            return
        self._last = time.monotonic()
        best = rank(trials, self._record.metric)
        top = f" The best score is {score(best[0].score, self._record)}." if best else ""
        LOG.info("%s%s", count_trials(self._record, trials), top)


def can_redraw(console: Console) -> bool:
    """Tell whether what is shown can move: in a terminal, and in a notebook that has ipywidgets."""
    return console.is_terminal or (console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None)


def pick_screen(quiet: bool) -> Screen:
    """Return the screen that there is."""
    if quiet:
        return Screen()
    console = Terminal()
    return LiveScreen(console) if console.is_terminal or console.is_jupyter else LogScreen()
