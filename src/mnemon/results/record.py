"""A run folder: what was run and what came out, as TOML and JSON that any program can read.

config.toml     every setting, resolved
record.json     versions, seed, counts, accuracy matrix, metrics, times
losses.jsonl    the loss terms, one line every so many steps; missing where there are none
samples/        what the replay model draws, if there is one (see samples.py)
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mnemon.config import convert, flat
from mnemon.errors import UsageError
from mnemon.notation import read_json, read_toml, write_toml
from mnemon.results.facts import (
    METRICS,
    build,
    check_at_least,
    check_choice,
    check_format,
    check_numbers,
    read_facts,
)
from mnemon.results.metrics import AccuracyMatrix
from mnemon.results.naming import name_of
from mnemon.whole_files import is_there, read_text, write_text

FORMAT = 2
CONFIG, RECORD, LOSSES = "config.toml", "record.json", "losses.jsonl"
_HOLDS = {CONFIG: "settings", RECORD: "run", LOSSES: "losses"}
_NUMBERS = ("matrix", "inferred", "untrained", "drift", "seconds")
"""What holds numbers, with null in place of NaN."""
_COUNTS = ("learned", "per_task", "n_tasks", "target", "compression")
"""Counts that every record has."""
_DERIVED = ("name", "metrics", "missing")
"""What is written for other programs, and follows from the rest."""
_SHOWN: dict[str, dict[str, Any]] = {
    "benchmark": {"name": str},
    "method": {"name": str, "vote": int, "hypernet": dict[str, Any]},
    "target": {},
    "optimizer": {},
    "training": {"scenario": str, "held_out": float, "steps": int, "epochs": float | None},
}
"""The tables of the settings and, with their types, the settings in them by which results are shown."""


@dataclass
class RunRecord:
    """The record of a run: everything but its weights.

    Example:
        >>> record = mnemon.RunRecord(
        ...     preset="mine", config={}, seed=0, metric="accuracy", task_names=["one", "two"],
        ...     counts={"learned": 900, "per_task": 20, "target": 500, "n_tasks": 2, "compression": 1.88},
        ...     versions={}, started="", matrix=[[98.0, 50.0], [90.0, 96.0]],
        ... )
        >>> record.accuracy.final.value
        93.0
    """

    preset: str
    config: dict[str, Any]
    seed: int
    metric: str
    """accuracy (percent) or mse."""
    task_names: list[str]
    counts: dict[str, bool | int | float]
    """How much the learner keeps, and whether it sees earlier tasks' data again (older records do not say)."""
    versions: dict[str, str]
    started: str
    matrix: list[list[float]] = field(default_factory=list)
    inferred: list[list[float]] = field(default_factory=list)
    """Percentage of inputs whose task was inferred right, a row per task; NaN where it was told."""
    untrained: list[float] = field(default_factory=list)
    losses: list[dict[str, float]] = field(default_factory=list)
    drift: list[float] = field(default_factory=list)
    """Mean squared change of each task's replayed images from right after the task to the end."""
    seconds: dict[str, float] = field(default_factory=dict)
    alarms: list[str] = field(default_factory=list)
    """Mechanisms of the method that never acted and tasks that were not learned, each in a sentence."""
    finished: bool = False
    published: str = ""
    changes: list[str] = field(default_factory=list)
    """In what the settings differ from the preset's, as `--set` takes it; older records do not say."""
    plugins: list[str] = field(default_factory=list)
    """Modules from outside mnemon that the run needs, such as that of its method."""
    format: int = FORMAT
    folder: Path | None = field(default=None, compare=False)
    """Where it was read from or written to; it is not written down."""

    @property
    def name(self) -> str:
        """What the run is called: after what was run."""
        return name_of(self.preset, self.changes, self.config)

    @property
    def accuracy(self) -> AccuracyMatrix:
        """The accuracy matrix with its metrics."""
        return AccuracyMatrix(self.matrix, self.untrained, len(self.task_names), of_errors=self.metric == "mse")

    @property
    def digits(self) -> int:
        """Digits behind the point with which its numbers are shown."""
        return 2 if self.metric == "accuracy" else 4

    @property
    def largest_drift(self) -> float:
        """The drift of the task whose replay drifted most; NaN where none is known."""
        return max((drift for drift in self.drift if not math.isnan(drift)), default=math.nan)

    def write(self, folder: Path) -> None:
        """Write the files of a run folder, each completely or not at all.

        Args:
            folder: The folder, which must exist.

        Raises:
            UsageError: A file cannot be written.

        Example:
            >>> record.write(Path("."))
        """
        facts = asdict(self)
        config, losses, _ = facts.pop("config"), facts.pop("losses"), facts.pop("folder")
        metrics = self.accuracy.metrics
        facts = {"name": self.name, **facts}
        facts["metrics"] = {name: metric.value for name, metric in metrics.items()}
        facts["missing"] = {name: metric.reason for name, metric in metrics.items() if metric.reason}
        write_text(folder / CONFIG, write_toml(config))
        if losses:
            write_text(folder / LOSSES, "".join(json.dumps(_without_nan(line)) + "\n" for line in losses))
        write_text(folder / RECORD, json.dumps(_without_nan(facts), indent=1))
        self.folder = folder

    @classmethod
    def read(cls, folder: Path, losses: bool = True) -> RunRecord:
        """Read a run folder. Every value is checked.

        Args:
            folder: The folder.
            losses: Read the loss curves, too; for a long run this takes as long as all the rest.

        Returns:
            The record.

        Raises:
            UsageError: The folder is no run folder, or damaged.

        Example:
            >>> mnemon.RunRecord.read(Path(".")).matrix
            [[98.0, 50.0], [90.0, 96.0]]
        """
        with _name_damage(folder, RECORD):
            facts = read_facts(folder / RECORD)
        _check_format(folder, facts)
        with _name_damage(folder, RECORD):
            record = _record(facts)
        with _name_damage(folder, CONFIG):
            record.config = _settings(read_toml(read_text(folder / CONFIG)))
        with _name_damage(folder, LOSSES):
            lines = read_text(folder / LOSSES).splitlines() if losses and is_there(folder / LOSSES) else []
            record.losses = [_loss(line) for line in lines]
        record.folder = folder
        return record


@contextmanager
def _name_damage(folder: Path, file: str) -> Iterator[None]:
    """Turn what is wrong with a file into an error of the user that names it."""
    try:
        yield
    except FileNotFoundError as error:
        raise UsageError(f"{folder} is not a run folder: {file} is missing.") from error
    except (OSError, ValueError) as error:
        raise UsageError(f"The record in {folder} is damaged: {file} holds no {_HOLDS[file]} ({error}).") from error


def _check_format(folder: Path, facts: Any) -> None:
    try:
        number = check_format(facts)
    except ValueError as error:
        raise UsageError(f"{folder / RECORD} was not written by mnemon: {error}.") from error
    if number > FORMAT:
        raise UsageError(
            f"The record in {folder} has format {number} and was written by a newer mnemon; "
            f"this one reads format {FORMAT}."
        )


def _record(facts: dict[str, Any]) -> RunRecord:
    """Return the record of a run, without settings and losses, which are in other files; raises ValueError."""
    known = {name: value for name, value in facts.items() if name not in _DERIVED}
    known |= {name: _with_nan(known[name]) for name in _NUMBERS if name in known}
    record = build(RunRecord, {"config": {}, **known})
    n_tasks = len(record.task_names)
    if n_tasks == 0:
        raise ValueError("it names no task")
    if "matrix" not in facts or not _fits(record.matrix, n_tasks):
        raise ValueError(f"the accuracy matrix is not of {n_tasks} tasks")
    if not _fits(record.inferred, n_tasks) or len(record.untrained) not in (0, n_tasks):
        raise ValueError(f"'inferred' or 'untrained' is not of {n_tasks} tasks")
    check_choice("metric", record.metric, METRICS)
    check_at_least("seed", record.seed, 0)
    for name in _COUNTS:
        if name not in record.counts:
            raise ValueError(f"the entry 'counts.{name}' is missing")
    if not all(math.isfinite(count) for count in record.counts.values()):
        raise ValueError("a count is not finite")
    return record


def _fits(rows: list[list[float]], n_tasks: int) -> bool:
    return len(rows) <= n_tasks and all(len(row) == n_tasks for row in rows)


def _settings(config: dict[str, Any]) -> dict[str, Any]:
    """Return the settings of a run; those that what is shown depends on have their types; raises ValueError."""
    check_numbers(config)
    for name, value in flat(config):
        if value != value:  # it would differ from itself
            raise ValueError(f"the setting '{name}' is not a number")
    try:
        for section, hints in _SHOWN.items():
            table = convert(dict[str, Any], config.get(section, {}), section)
            for name, hint in hints.items():
                if name in table:
                    convert(hint, table[name], f"{section}.{name}")
    except UsageError as error:
        raise ValueError(str(error).rstrip(".")) from error
    return config


def _loss(line: str) -> dict[str, float]:
    """Return an entry of the losses; raises ValueError."""
    entry = _with_nan(check_numbers(read_json(line)))
    if not isinstance(entry, dict) or any(type(value) not in (int, float) for value in entry.values()):
        raise ValueError(f"it has a line that is no table of numbers: {line:.40}")
    for name in ("task", "step"):
        if type(entry.get(name)) is not int or entry[name] < 0:
            raise ValueError(f"it has a line without the number of its {name}: {line:.40}")
    return entry


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders at or below a folder, in order of their names."""
    if not is_there(folder):
        raise UsageError(f"There is no folder {folder}.")
    if is_there(folder / RECORD):
        return [folder]
    runs = sorted((path.parent for path in folder.rglob(RECORD)), key=_natural)
    if not runs:
        raise UsageError(f"{folder} holds no run: there is no {RECORD} in it or below it.")
    return runs


def _natural(path: Path) -> tuple[object, ...]:
    digits = path.name.rpartition("-")[2]
    return (
        str(path.parent),
        path.name.rpartition("-")[0],
        int(digits) if digits.isdecimal() else -1,
        path.name,
    )


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Could not make the folder {folder}: {error.strerror or error}.") from error


def _without_nan(value: Any) -> Any:
    """Turn NaN into null: JSON knows no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_nan(v) for v in value]
    return value


def _with_nan(value: Any) -> Any:
    """Turn null, and what is not finite, into NaN."""
    if isinstance(value, dict):
        return {name: _with_nan(item) for name, item in value.items()}
    if isinstance(value, list):
        return [_with_nan(item) for item in value]
    return math.nan if value is None or (isinstance(value, float) and not math.isfinite(value)) else value
