"""The trials of a sweep: which are begun, what is seen of them, how they end.

The parent alone speaks with the study. It asks for a trial, hands it as a job to an engine, reports what is measured
after each task, stops what is pruned, and tells the study how a trial ended. A trial that did not come to its end
(stopped, killed, its machine gone) is put back: it fails, and one with the same settings waits for its turn, which
resumes from the checkpoint if that is at hand.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from mnemon.errors import TrainingError, UsageError
from mnemon.experiments.control import StopFlag, never
from mnemon.experiments.engines import Ended, Engine, WorkerLost
from mnemon.experiments.job import Event, Job
from mnemon.experiments.run import alone_in
from mnemon.experiments.sweep.prepare import Prepared
from mnemon.experiments.sweep.space import Space
from mnemon.experiments.sweep.storage import open_study, said_of_database, said_of_folder
from mnemon.experiments.sweep.suggest import sampler, suggest, value_of
from mnemon.results import sweep as results
from mnemon.results.record import RECORD, RunRecord
from mnemon.results.sweep import SweepRecord, Trial
from mnemon.training.trainer import Stopped
from mnemon.whole_files import remove_leftovers

if TYPE_CHECKING:
    import optuna

JOURNAL, RUNS = "journal.log", "trials"
MOST_TRIES = 4
"""How often a trial is begun before it is given up: something kills its process again and again."""
MOST_FAILURES = 5
"""Trials in a row that cannot be run, after which the sweep gives up."""
BEAT, SILENCE = 15.0, 90.0
"""Seconds between two signs of life of a trial, and after how many without one another machine takes it over."""


@dataclass
class _Running:
    """A trial that is under way."""

    trial: optuna.Trial
    job: Job
    reported: int = 0
    """Tasks whose result is known to the study."""
    pruned: bool = False
    since: float = field(default_factory=time.monotonic)


class Sweep:
    """A study, the folder that its trials run in, and the trials that are under way."""

    def __init__(self, space: Space, record: SweepRecord, folder: Path, study: optuna.Study):
        self.space, self.record, self.folder, self.study = space, record, folder, study
        self._running: dict[int, _Running] = {}
        self._shared = bool(record.storage)
        self._failures: list[str] = []
        self._beats: dict[int, tuple[Any, float]] = {}
        self._last_beat = self._last_look = -math.inf
        self._changed = True

    def run(
        self,
        engine: Engine,
        on_change: Callable[[list[Trial]], None],
        should_stop: StopFlag,
        until: float = math.inf,
    ) -> None:
        """Run trials until there are enough, or until a moment of `time.monotonic`; raises `Stopped` if asked to.

        Trials that are under way then are saved and put back.
        """
        (self.folder / RUNS).mkdir(exist_ok=True)
        for path in (self.folder / RUNS).iterdir():  # finished trials, too: they may have been killed at their end
            remove_leftovers(path)
        self._put_back_own()
        on_change(self.keep())
        with engine:
            asked = self._loop(engine, on_change, should_stop, until)
        on_change(self.keep())
        if asked:
            raise Stopped

    def _loop(
        self,
        engine: Engine,
        on_change: Callable[[list[Trial]], None],
        should_stop: StopFlag,
        until: float,
    ) -> bool:
        while True:
            asked = should_stop()
            ending = asked or time.monotonic() >= until or len(self._failures) >= MOST_FAILURES
            if ending:
                engine.stop()
            else:
                self._begin_trials(engine)
            if not self._running and (ending or self._enough()):
                break
            if not self._running:  # others who share the study have the last trials
                time.sleep(0.2)
            events, ended = engine.poll(0.05)
            for event in events:
                self._see(event, engine)
            for one in ended:
                self._end(one)
            if ended:
                on_change(self.keep())
            self._show_life(engine)
        if len(self._failures) >= MOST_FAILURES:
            raise TrainingError(
                f"{MOST_FAILURES} trials in a row could not be run, the last one: {self._failures[-1]}"
            )
        return asked

    def trials(self) -> list[Trial]:
        """Return all trials of the study, in the order of their numbers."""
        return [self._trial(frozen) for frozen in self.study.get_trials(deepcopy=False)]

    def keep(self) -> list[Trial]:
        """Write what the trials came to; return them."""
        trials = self.trials()
        results.write_trials(self.folder, trials)
        if best := results.rank(trials, self.record.metric):
            results.write_best(self.folder, self.record, best[0])
        return trials

    def _trial(self, frozen: optuna.trial.FrozenTrial) -> Trial:
        attributes, values = frozen.user_attrs, frozen.intermediate_values
        score = frozen.value if frozen.value is not None else values[max(values)] if values else math.nan
        seconds = frozen.duration.total_seconds() if frozen.duration else 0.0
        words = {"COMPLETE": results.FINISHED, "PRUNED": results.PRUNED, "FAIL": results.FAILED}
        state = words.get(frozen.state.name, frozen.state.name.lower())
        asked = frozen.params or frozen.system_attrs.get("fixed_params", {})
        settings = {
            path: value_of(self.space.ranges[path], asked[path]) for path in self.space.ranges if path in asked
        }
        note = str(attributes.get("note", ""))
        return Trial(
            frozen.number, state, float(score), len(values), seconds, attributes.get("folder", ""), note, settings
        )

    # Beginning trials

    def _begin_trials(self, engine: Engine) -> None:
        # Others who share the study may need help, or be done: look now and then.
        if not self._changed and time.monotonic() - self._last_look < (1.0 if self._shared else math.inf):
            return
        self._changed, self._last_look = False, time.monotonic()
        while engine.room() and self._room_in_study():
            trial = self.study.ask()
            with _taken_over_by_another():
                if self._shared and not self._room_in_study(below=trial.number):
                    self._withdraw(trial)
                else:
                    self._begin(trial, engine)

    def _room_in_study(self, below: int | None = None) -> bool:
        """Tell whether more trials are wanted than are done and under way, of those that came before one."""
        count = 0
        for frozen in self.study.get_trials(deepcopy=False):
            running = frozen.state.name == "RUNNING" and (below is None or frozen.number < below)
            count += running or frozen.state.name in ("COMPLETE", "PRUNED")
        return count < self.record.trials

    def _enough(self) -> bool:
        done = sum(t.state.name in ("COMPLETE", "PRUNED") for t in self.study.get_trials(deepcopy=False))
        return done >= self.record.trials

    def _begin(self, trial: optuna.Trial, engine: Engine) -> None:
        trial.set_user_attr("home", self.record.home)
        trial.set_user_attr("seed", self.record.seed)
        # The random choice is a function of seed and trial, so that a resumed sweep does not choose the same again.
        self.study.sampler = sampler(self.space, self.record.seed, trial.number)
        settings = {path: suggest(trial, path, r) for path, r in self.space.ranges.items()}
        trial.set_user_attr("folder", folder := self._folder(trial))
        try:
            config = self.space.config(settings)
        except UsageError as error:
            self._fail(trial, str(error))
            return
        path = self.folder / RUNS / folder
        path.mkdir(exist_ok=True)
        running = _Running(trial, Job(trial.number, config, self.record.seed, path, f"trial {trial.number}"))
        self._running[trial.number] = running
        if (path / RECORD).exists():
            self._report(running, RunRecord.read(path).matrix)
        engine.start(running.job)

    def _folder(self, trial: optuna.Trial) -> str:
        """Return the name of a trial's folder: that of the trial whose place it takes, once it is left alone."""
        earlier, own = trial.user_attrs.get("earlier"), f"trial-{trial.number:04d}"
        limit = time.monotonic() + 10
        while earlier and (self.folder / RUNS / earlier).exists():
            with contextlib.suppress(UsageError), alone_in(self.folder / RUNS / earlier):
                return str(earlier)
            if time.monotonic() > limit:
                break
            time.sleep(0.1)
        return own

    def _withdraw(self, trial: optuna.Trial) -> None:
        """Give up a trial that was asked for at the same moment as others elsewhere, and is one too many."""
        if "again" in trial.user_attrs:
            self._put_back(trial.number)
        else:
            self._tell(trial, "FAIL", note="one too many")

    # While they run

    def _see(self, event: Event, engine: Engine) -> None:
        running = self._running.get(event.run)
        if running is None or event.row is None:
            return
        self._report(running, [[]] * event.task_id + [event.row])
        last = event.task_id + 1 == event.n_tasks
        if self.space.pruning and not last and not running.pruned and running.trial.should_prune():
            running.pruned = True
            engine.stop(event.run)

    def _report(self, running: _Running, rows: list[list[float]]) -> None:
        """Tell the study the mean over the tasks so far, after each task that it does not know of yet."""
        for task_id in range(running.reported, len(rows)):
            seen = [value for value in rows[task_id][: task_id + 1] if value == value]
            if seen and not running.pruned:
                with _taken_over_by_another():
                    running.trial.report(sum(seen) / len(seen), task_id)
            running.reported = task_id + 1

    def _show_life(self, engine: Engine) -> None:
        """Give signs of life of the own trials, and take over those of others who give none any more."""
        now = time.monotonic()
        if not self._shared or now - self._last_beat < BEAT:
            return
        self._last_beat = now
        for running in self._running.values():
            if not _noted(running.trial, "beat", round(now - running.since, 1)):
                engine.stop(running.job.number)
        for frozen in self.study.get_trials(deepcopy=False):
            if frozen.state.name != "RUNNING" or frozen.number in self._running:
                continue
            beat, since = self._beats.get(frozen.number, (None, now))
            if frozen.user_attrs.get("beat", 0) != beat:
                self._beats[frozen.number] = frozen.user_attrs.get("beat", 0), now
            elif now - since > SILENCE:
                self._put_back(frozen.number)

    # Ending trials

    def _end(self, ended: Ended) -> None:
        running, error = self._running.pop(ended.job.number), ended.error
        self._changed = True
        trial = running.trial
        if running.pruned and (error is None or isinstance(error, Stopped)):
            self._tell(trial, "PRUNED")
        elif error is None:
            record = RunRecord.read(ended.job.folder)
            self._report(running, record.matrix)
            self._tell(trial, "COMPLETE", record.accuracy.final.value)
        elif isinstance(error, Stopped | WorkerLost):
            self._put_back(trial.number, lost=isinstance(error, WorkerLost))
        elif isinstance(error, TrainingError):  # it diverged: settings that are no good, which is worth knowing
            self._tell(trial, "PRUNED", note=str(error))
        elif isinstance(error, UsageError):
            self._fail(trial, str(error))
        else:
            raise error

    def _tell(self, trial: optuna.Trial, state: str, value: float | None = None, note: str = "") -> None:
        from optuna.trial import TrialState

        if state != "FAIL":
            self._failures.clear()
        with _taken_over_by_another():
            if note:
                trial.set_user_attr("note", note)
            self.study.tell(trial, value, TrialState[state])

    def _fail(self, trial: optuna.Trial, note: str) -> None:
        self._failures.append(note)
        self._changed = True
        self._tell(trial, "FAIL", note=note)

    def _put_back_own(self) -> None:
        """Put back what a killed parent has left running: all of this folder's, since nobody else is in it."""
        for frozen in self.study.get_trials(deepcopy=False):
            whose = frozen.user_attrs.get("home", None if self._shared else self.record.home)
            if frozen.state.name == "RUNNING" and whose == self.record.home:
                self._put_back(frozen.number, lost=True)

    def _put_back(self, number: int, lost: bool = False) -> None:
        """Let a trial fail, and one with the same settings wait for its turn."""
        from optuna.trial import TrialState

        trials = self.study.get_trials(deepcopy=False)
        frozen = trials[number]
        tries = frozen.user_attrs.get("tries", 1) + lost
        with _taken_over_by_another():
            again = any(t.user_attrs.get("again") == number for t in trials)
            params = frozen.params or frozen.system_attrs.get("fixed_params", {})
            if len(params) == len(self.space.ranges) and not again and tries <= MOST_TRIES:
                earlier = frozen.user_attrs.get("folder") or frozen.user_attrs.get("earlier")
                facts = {"again": number, "earlier": earlier, "tries": tries}
                self.study.enqueue_trial(params, {k: v for k, v in facts.items() if v is not None})
            self.study.tell(number, state=TrialState.FAIL)


@contextmanager
def _taken_over_by_another() -> Iterator[None]:
    """Let a trial go that another machine, which heard nothing of it any more, has ended."""
    from optuna.exceptions import UpdateFinishedTrialError

    try:
        yield
    except (UpdateFinishedTrialError, ValueError) as error:
        if not str(error).startswith("Cannot tell a ") and not isinstance(error, UpdateFinishedTrialError):
            raise


def _noted(trial: optuna.Trial, name: str, value: Any) -> bool:
    """Note something of a trial in the study; tell whether it is still ours."""
    with _taken_over_by_another():
        trial.set_user_attr(name, value)
        return True
    return False


def run_sweep(
    prepared: Prepared,
    engine: Engine,
    on_change: Callable[[list[Trial]], None],
    should_stop: StopFlag = never,
    minutes: float | None = None,
) -> list[Trial]:
    """Run the trials of a sweep that are left, within so many minutes; return all trials.

    Raises `Stopped` if asked to stop. `on_change` gets the trials, first as they were when this began.
    """
    until = math.inf if minutes is None else time.monotonic() + 60 * minutes
    space, record, folder, url = prepared
    with alone_in(folder), said_of_folder(folder), said_of_database(url):
        study = open_study(record.study, folder / JOURNAL, url, space, record.seed, record.metric)
        sweep = Sweep(space, record, folder, study)
        sweep.run(engine, on_change, should_stop, until)
        return sweep.trials()
