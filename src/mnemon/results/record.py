"""A run folder: what was run and what came out, as TOML and JSON that any program can read.

config.toml     every setting, resolved
record.json     versions, seed, counts, accuracy matrix, metrics, times
losses.jsonl    the loss terms, one line every so many steps; missing where there are none
samples/        what the replay model draws, if there is one (see samples.py)
"""

from __future__ import annotations

import json
import math
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from mnemon.errors import UsageError
from mnemon.notation import read_json, read_toml, write_toml
from mnemon.results.metrics import AccuracyMatrix
from mnemon.whole_files import read_text, write_text

FORMAT = 2
CONFIG, RECORD, LOSSES = "config.toml", "record.json", "losses.jsonl"


@dataclass
class RunRecord:
    """Everything that a run leaves behind, without its weights."""

    preset: str
    config: dict[str, Any]
    seed: int
    metric: str
    """accuracy (percent) or mse."""
    task_names: list[str]
    counts: dict[str, float]
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
    format: int = FORMAT

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
        """Write the folder's files, each aside and then renamed."""
        facts = asdict(self)
        config, losses = facts.pop("config"), facts.pop("losses")
        metrics = self.accuracy.metrics
        facts["metrics"] = {name: metric.value for name, metric in metrics.items()}
        facts["missing"] = {name: metric.reason for name, metric in metrics.items() if metric.reason}
        write_text(folder / CONFIG, write_toml(config))
        if losses:
            write_text(folder / LOSSES, "".join(json.dumps(_without_nan(line)) + "\n" for line in losses))
        write_text(folder / RECORD, json.dumps(_without_nan(facts), indent=1))

    @classmethod
    def read(cls, folder: Path) -> RunRecord:
        """Read a run folder."""
        try:
            facts = read_json(read_text(folder / RECORD))
            config = read_toml(read_text(folder / CONFIG))
            lines = read_text(folder / LOSSES).splitlines() if (folder / LOSSES).exists() else []
            losses = [read_json(line) for line in lines]
        except FileNotFoundError as error:
            raise UsageError(f"{folder} is not a run folder: {Path(error.filename).name} is missing.") from error
        except (ValueError, OSError) as error:
            raise UsageError(f"The record in {folder} is damaged: {error}.") from error
        number = facts.get("format") if isinstance(facts, dict) else None
        if not isinstance(number, int):
            raise UsageError(f"{folder / RECORD} was not written by mnemon: it names no format.")
        if number > FORMAT:
            raise UsageError(
                f"The record in {folder} has format {number} and was written by a newer mnemon; "
                f"this one reads format {FORMAT}."
            )
        for derived in ("metrics", "missing"):
            facts.pop(derived, None)
        try:
            facts.setdefault("inferred", [])  # records of earlier versions have none
            for rows in ("matrix", "inferred"):
                facts[rows] = [_with_nan(row) for row in facts[rows]]
            facts["untrained"] = _with_nan(facts["untrained"])
            facts["drift"] = _with_nan(facts.get("drift", []))
            record = cls(config=config, losses=losses, **facts)
            n_tasks = len(record.task_names)
            if len(record.matrix) > n_tasks or any(len(row) != n_tasks for row in record.matrix):
                raise ValueError(f"the accuracy matrix is not of {n_tasks} tasks")
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"The record in {folder} is damaged: {RECORD} holds no run ({error}).") from error
        return record


def find_runs(folder: Path) -> list[Path]:
    """Return the run folders at or below a folder, in order of their names."""
    if not folder.exists():
        raise UsageError(f"There is no folder {folder}.")
    if (folder / RECORD).exists():
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
        int(digits) if digits.isdigit() else -1,
        path.name,
    )


def make_folder(folder: Path) -> None:
    """Make a folder, and those above it."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UsageError(f"Could not make the folder {folder}: {error}.") from error


def _without_nan(value: Any) -> Any:
    """Turn NaN into null: JSON knows no NaN."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, dict):
        return {k: _without_nan(v) for k, v in value.items()}
    if isinstance(value, list):
        return [_without_nan(v) for v in value]
    return value


def _with_nan(row: list[float | None]) -> list[float]:
    return [math.nan if value is None else value for value in row]
