"""A sweep: a folder with the run of each trial, what they came to, and the best of them.

sweep.json      what is searched, by which criterion, and in which study
trials.csv      a line per trial
trials/         the run folders of the trials
best.toml       a preset of the best settings
summary.txt     the table
"""

from __future__ import annotations

import csv
import io
import json
import math
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from mnemon.config import as_word
from mnemon.errors import UsageError
from mnemon.notation import read_json, write_toml
from mnemon.results.facts import METRICS, check_at_least, check_choice, check_numbers
from mnemon.results.frame import as_frame
from mnemon.results.summary_file import read_summary
from mnemon.results.terminal.console import as_html, as_text
from mnemon.results.terminal.tables import fits
from mnemon.whole_files import is_there, read_text, write_text

if TYPE_CHECKING:
    import pandas

FORMAT = 1
FILE, TRIALS, BEST = "sweep.json", "trials.csv", "best.toml"
FINISHED, PRUNED, RUNNING, WAITING, FAILED = "finished", "pruned", "running", "waiting", "failed"
STATES = (FINISHED, PRUNED, RUNNING, WAITING, FAILED)
CRITERIA = ("held-out", "test")
COUNTED = (FINISHED, PRUNED)
"""States of trials that count: their settings need not be tried again."""
_COLUMNS = ("trial", "state", "score", "tasks", "seconds", "folder", "note")


@dataclass(frozen=True)
class SweepRecord:
    """What is searched."""

    preset: str
    """Name or path of the preset."""
    about: str
    criterion: str
    """held-out or test: on which data trials are judged."""
    metric: str
    """accuracy or mse, as in a run's record."""
    seed: int
    """Of every trial, and of the choice of settings."""
    study: str
    storage: str
    """The database that holds the study; nothing if it is the journal in the folder."""
    home: str
    """By this trials are known to be of this folder, where several share a study."""
    trials: int
    """How many are wanted in all, finished or pruned."""
    fixed: dict[str, Any] = field(default_factory=dict)
    """Settings that all trials share, but for the share of data that is held out: there is none."""
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write the file of the sweep."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=1))

    def check(self) -> None:
        """Refuse what no sweep can be; raises ValueError."""
        check_choice("metric", self.metric, METRICS)
        check_choice("criterion", self.criterion, CRITERIA)
        check_at_least("seed", self.seed, 0)
        check_at_least("trials", self.trials, 0)
        try:
            write_toml(self.fixed)  # as they are written with the best settings
        except TypeError as error:
            raise ValueError(f"fixed holds what no setting can be: {error}") from error

    @classmethod
    def read(cls, folder: Path) -> SweepRecord:
        """Read the file of the sweep in a folder."""
        return read_summary(folder, FILE, "sweep", FORMAT, cls)


@dataclass(frozen=True)
class Trial:
    """What became of a trial."""

    number: int
    state: str
    score: float
    """Mean over the tasks so far, after the last one that was learned; NaN before the first."""
    tasks: int
    """Tasks that were learned."""
    seconds: float
    folder: str
    note: str
    settings: dict[str, Any]
    """The values of the settings that are searched."""


def is_sweep(folder: Path) -> bool:
    """Say whether a folder holds a sweep."""
    return is_there(folder / FILE)


def rank(trials: Sequence[Trial], metric: str) -> list[Trial]:
    """Return the finished trials, the best one first; of equals, the earlier one."""
    sign = 1 if metric == "mse" else -1
    finished = [trial for trial in trials if trial.state == FINISHED]
    return sorted(finished, key=lambda trial: (sign * trial.score, trial.number))


def write_trials(folder: Path, trials: Sequence[Trial]) -> None:
    """Write a line per trial."""
    text = io.StringIO()
    names = list(dict.fromkeys(name for trial in trials for name in trial.settings))
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow([*_COLUMNS, *names])
    for t in trials:
        score = "" if math.isnan(t.score) else repr(t.score)
        facts = (t.number, t.state, score, t.tasks, f"{t.seconds:.1f}", t.folder, t.note)
        writer.writerow([*facts, *(_text(t.settings.get(name, "")) for name in names)])
    write_text(folder / TRIALS, text.getvalue())


def read_trials(folder: Path) -> list[Trial]:
    """Read the lines of the trials."""
    try:
        lines = list(csv.reader(io.StringIO(read_text(folder / TRIALS))))
        header, *rows = [line for line in lines if line] or [list(_COLUMNS)]
        return [_trial(header, row) for row in rows]
    except FileNotFoundError:
        return []
    except (OSError, ValueError, csv.Error) as error:
        raise UsageError(f"The sweep in {folder} is damaged: {TRIALS} cannot be read ({error}).") from error


def _trial(header: Sequence[str], row: Sequence[str]) -> Trial:
    """Return the trial of a line; raises ValueError."""
    n = len(_COLUMNS)
    if tuple(header[:n]) != _COLUMNS:
        raise ValueError(f"its first line does not begin with {','.join(_COLUMNS)}")
    if len(row) != len(header):
        raise ValueError(f"a line has {len(row)} values in place of {len(header)}")
    number, state, score, tasks, seconds, place, note = row[:n]
    check_choice("state", state, STATES)
    value, took = check_numbers(float(score) if score else math.nan), check_numbers(float(seconds))
    settings = dict(zip(header[n:], row[n:], strict=True))
    return Trial(int(number), state, value, int(tasks), took, place, note, settings)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def write_best(folder: Path, record: SweepRecord, best: Trial) -> None:
    """Write a preset of the best settings; it is tested on the test data."""
    values: dict[str, Any] = {
        "like": record.preset,
        "about": f"The best of a sweep of {record.preset}: {score(best.score, record)} {describe_criterion(record)}.",
    }
    for path, value in {**record.fixed, **best.settings}.items():
        *tables, last = path.split(".")
        table = values
        for key in tables:
            table = table.setdefault(key, {})
        table[last] = value
    write_text(folder / BEST, write_toml(values))


def command(record: SweepRecord, settings: Mapping[str, Any]) -> str:
    """Return what to type to run a trial's settings on the test data."""
    changes = [as_word(path, value) for path, value in {**record.fixed, **settings}.items()]
    return shlex.join(["mnemon", "run", record.preset, *(word for change in changes for word in ("--set", change))])


def describe_criterion(record: SweepRecord) -> str:
    """Say by what trials are judged."""
    data = "held-out training data" if record.criterion == "held-out" else "test data"
    return f"{'% correct' if record.metric == 'accuracy' else 'mean squared error'} on {data}"


def score(value: float, record: SweepRecord) -> str:
    """Show a score; a dot where it is missing."""
    return "·" if math.isnan(value) else f"{value:.2f}" if record.metric == "accuracy" else f"{value:.4f}"


def render_sweep(record: SweepRecord, trials: Sequence[Trial], most: int = 10) -> RenderableType:
    """Show the best trials, and how many there are."""
    title = Text(f"\nSweep of {record.preset}", style="bold")
    title.append(f"  {describe_criterion(record)}, mean over tasks; seed {record.seed}\n", style="")
    if record.fixed:
        title.append(f"In all trials: {', '.join(as_word(*setting) for setting in record.fixed.items())}\n", style="")
    return Group(title, _Fitted(record, rank(trials, record.metric)[:most]), Text(count_trials(record, trials)))


@dataclass(frozen=True)
class _Fitted:
    """The best trials as the terminal allows: a column for each setting, or all settings in one."""

    record: SweepRecord
    best: Sequence[Trial]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        names = list(dict.fromkeys(name for trial in self.best for name in trial.settings))
        short = [name.rpartition(".")[2] for name in names]
        cells = [[_short(trial.settings.get(name, "")) for name in names] for trial in self.best]
        table = self._table(short, cells)
        if not fits(table, console, options):
            said = (zip(short, row, strict=True) for row in cells)
            table = self._table(["settings"], [[", ".join(f"{n}={value}" for n, value in row)] for row in said])
        yield table

    def _table(self, columns: Sequence[str], cells: Sequence[Sequence[str]]) -> Table:
        table = Table(box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
        for name in ("trial", "score", *columns):
            table.add_column(name, justify="left" if name == "settings" else "right", overflow="fold")
        for i, (trial, row) in enumerate(zip(self.best, cells, strict=True)):
            value = score(trial.score, self.record)
            table.add_row(str(trial.number), value, *row, style="bold" if i == 0 else "")
        return table


@dataclass(frozen=True, repr=False)
class SweepResult:
    """What a sweep came to: its trials and the best of them.

    Example:
        >>> space = {"preset": "toy", "set": {"steps": 5}, "search": {"beta": [0.01, 0.1]}}
        >>> result = mnemon.sweep(space, trials=2, workers=1, quiet=True)
        >>> result.best_settings["method.beta"] in (0.01, 0.1)
        True
        >>> record = mnemon.run(result.best_preset, report=False, quiet=True)
    """

    folder: Path
    record: SweepRecord
    trials: Sequence[Trial]

    @classmethod
    def read(cls, folder: str | Path) -> SweepResult:
        """Read the sweep in a folder.

        Args:
            folder: The folder of a sweep.

        Returns:
            The sweep, finished or not.

        Raises:
            UsageError: If there is no sweep, or if something in it is damaged.
        """
        return cls(Path(folder), SweepRecord.read(Path(folder)), read_trials(Path(folder)))

    @property
    def best(self) -> Trial | None:
        """The finished trial with the best score; None if no trial is finished."""
        return next(iter(rank(self.trials, self.record.metric)), None)

    @property
    def best_settings(self) -> dict[str, Any]:
        """The settings of the best trial by which it differs from the preset, those that are fixed included."""
        own = self.best.settings if self.best else {}
        return {**self.record.fixed, **{path: _value_of(value) for path, value in own.items()}}

    @property
    def best_preset(self) -> Path:
        """A preset file with the best settings, for `mnemon.run`."""
        return self.folder / BEST

    def to_pandas(self) -> pandas.DataFrame:
        """Return a data frame with a row for each trial.

        Raises:
            UsageError: If pandas is not installed.
        """
        names = list(dict.fromkeys(name for trial in self.trials for name in trial.settings))
        lines = ([*_facts_of(t), *(_value_of(t.settings.get(name)) for name in names)] for t in self.trials)
        return as_frame([*_COLUMNS, *names], lines)

    @property
    def remarks(self) -> list[str]:
        """The lines that say how to run the best settings on the test data."""
        if self.best is None:
            return []
        return [
            f"Run the best settings on the test data: mnemon run {shlex.quote(str(self.best_preset))}",
            f"The same: {command(self.record, self.best_settings)}",
        ]

    def __rich__(self) -> RenderableType:
        return render_sweep(self.record, self.trials)

    def __str__(self) -> str:
        return as_text(self, *self.remarks)

    def __repr__(self) -> str:
        return f"<SweepResult of {self.record.preset}: {count_trials(self.record, self.trials)} In {self.folder}>"

    def _repr_html_(self) -> str:
        return as_html(str(self))


def _value_of(value: Any) -> Any:
    return _read(value) if isinstance(value, str) else value


def _facts_of(trial: Trial) -> tuple[object, ...]:
    """Return what the first columns say of a trial."""
    return trial.number, trial.state, trial.score, trial.tasks, trial.seconds, trial.folder, trial.note


def _read(text: str) -> Any:
    """Return a value as it was before it was written as text."""
    try:
        return read_json(text)
    except ValueError:
        return text


def _short(value: Any) -> str:
    value = _value_of(value)
    return f"{value:.3g}" if isinstance(value, float) else _text(value)


def count_trials(record: SweepRecord, trials: Sequence[Trial]) -> str:
    """Say how many trials there are of each kind."""
    counts = {state: sum(trial.state == state for trial in trials) for state in (*COUNTED, RUNNING, WAITING)}
    words = [f"{n} {state}" for state, n in counts.items() if n or state == FINISHED]
    return f"{sum(counts[state] for state in COUNTED)} of {record.trials} trials: {', '.join(words)}."
