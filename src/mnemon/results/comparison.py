"""A comparison of methods: a folder with the runs of each, the table of what came out, and its numbers as CSV.

compare.json    which methods were compared, in which order, and the folder of each
summary.txt     the table
comparison.csv  a line per run
tasks.csv       a line per run and task: the data of a figure
"""

from __future__ import annotations

import csv
import io
import json
import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, Group, JustifyMethod, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from mnemon.errors import choose
from mnemon.plugins import note_of_missing
from mnemon.results.costs import (
    bytes_per_task,
    describe_kept_in_all,
    describe_kept_per_task,
    identification_accuracy,
    ms_per_step,
    parameters,
    stored_bytes,
)
from mnemon.results.facts import check_plain_name
from mnemon.results.frame import as_frame
from mnemon.results.metrics import METRICS, mean_and_sem
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.runs import Complete, as_it_is, read_runs
from mnemon.results.summary_file import read_summary
from mnemon.results.terminal.console import as_html, as_text
from mnemon.results.terminal.tables import (
    check_same_experiment,
    describe_test_data,
    fits,
    format_spread,
    in_form,
    unit,
)
from mnemon.whole_files import is_there, write_text

if TYPE_CHECKING:
    import pandas

FORMAT = 1
FILE, RUNS, TASKS = "compare.json", "comparison.csv", "tasks.csv"


@dataclass(frozen=True)
class Comparison:
    """What is compared."""

    benchmark: str
    scenario: str
    folders: dict[str, str]
    """The folder of each method's runs within that of the comparison, by its label, in the order of the table."""
    failures: dict[str, str] = field(default_factory=dict)
    """Why a run could not go on, by its folder within that of the comparison."""
    format: int = FORMAT

    def write(self, folder: Path) -> None:
        """Write the file of the comparison."""
        write_text(folder / FILE, json.dumps(asdict(self), indent=1))

    @classmethod
    def read(cls, folder: Path) -> Comparison:
        """Read the file of the comparison in a folder."""
        return read_summary(folder, FILE, "comparison", FORMAT, cls)

    def check(self) -> None:
        """Refuse a comparison of nothing, or of what is elsewhere; raises ValueError."""
        if not self.folders:
            raise ValueError("it names no methods")
        for name in self.folders.values():
            check_plain_name(name)


def is_comparison(folder: Path) -> bool:
    """Say whether a folder holds a comparison, rather than a run or several seeds."""
    return is_there(folder / FILE)


@dataclass(frozen=True)
class Entry:
    """A method that is compared, with its runs."""

    label: str
    runs: dict[Path, RunRecord]
    failures: dict[int, str]
    """Why a seed could not go on."""

    @property
    def records(self) -> list[RunRecord]:
        """The records of its runs."""
        return list(self.runs.values())

    @property
    def finished(self) -> list[RunRecord]:
        """The runs that count."""
        return [record for record in self.records if record.finished]


def read_entries(folder: Path, comparison: Comparison, complete: Complete = as_it_is) -> list[Entry]:
    """Read the runs of each method; `complete` gives older records the settings that they lack."""
    paths = {label: find_runs(folder / name) for label, name in comparison.folders.items()}
    read = read_runs((path for some in paths.values() for path in some), complete)
    entries = []
    for label, some in paths.items():
        runs = {path: read[path] for path in some}
        check_same_experiment(list(runs.values()))
        # What has failed may have been resumed since.
        failed = {r.seed: path.relative_to(folder).as_posix() for path, r in runs.items() if not r.finished}
        reasons = {seed: comparison.failures[key] for seed, key in failed.items() if key in comparison.failures}
        entries.append(Entry(label, runs, reasons))
    return entries


@dataclass(frozen=True, repr=False)
class ComparisonTable:
    """Several methods on the same tasks: the runs of each, and a table with one row for each method.

    Example:
        >>> settings = {"steps": 5, "n_tasks": 2}
        >>> table = mnemon.compare(["joint", "from-scratch"], settings=settings, workers=1, report=False, quiet=True)
        >>> table.methods
        ['joint', 'from-scratch']
        >>> mean, sem = table.mean("joint")
        >>> [record.seed for record in table["joint"]]
        [0]
    """

    folder: Path
    comparison: Comparison
    entries: Sequence[Entry]
    """The methods in the order of the table."""

    @classmethod
    def read(cls, folder: str | Path, complete: Complete = as_it_is) -> ComparisonTable:
        """Read the comparison in a folder.

        Args:
            folder: The folder of a comparison.
            complete: Gives records of earlier versions the settings that they lack (see `read_runs`).

        Returns:
            The comparison, finished or not.

        Raises:
            UsageError: If there is no comparison, or if something in it is damaged.
        """
        comparison = Comparison.read(Path(folder))
        return cls(Path(folder), comparison, read_entries(Path(folder), comparison, complete))

    @property
    def methods(self) -> list[str]:
        """The methods, as they were named."""
        return [entry.label for entry in self.entries]

    def __getitem__(self, method: str) -> list[RunRecord]:
        """Return the records of a method."""
        return choose("method", method, {entry.label: entry for entry in self.entries}).records

    def mean(self, method: str, metric: str = "final") -> tuple[float, float]:
        """Return the mean of a metric over the finished seeds of a method, with its standard error.

        Args:
            method: One of `methods`.
            metric: One of `final`, `during`, `bwt_gem`, `fwt_gem`, `forgetting_chaudhry`, `forgetting_avalanche`.
        """
        choose("metric", metric, dict.fromkeys(METRICS))
        values = [record.accuracy.metrics[metric].value for record in self[method] if record.finished]
        return mean_and_sem(values) if values else (math.nan, math.nan)

    def to_pandas(self, tasks: bool = False) -> pandas.DataFrame:
        """Return a data frame with a row for each run.

        Args:
            tasks: One row for each run and task.

        Raises:
            UsageError: If pandas is not installed.
        """
        return as_frame(TASK_COLUMNS, self._task_lines()) if tasks else as_frame(RUN_COLUMNS, self._run_lines())

    def write_numbers(self) -> None:
        """Write what the table was made of: a line for each run, and a line for each run and task."""
        write_text(self.folder / RUNS, as_csv(RUN_COLUMNS, self._run_lines()))
        write_text(self.folder / TASKS, as_csv(TASK_COLUMNS, self._task_lines()))

    def _run_lines(self) -> Iterator[list[object]]:
        return (run_line(e.label, r) for e in self.entries for r in e.records)

    def _task_lines(self) -> Iterator[list[object]]:
        return (line for e in self.entries for r in e.records for line in task_lines(e.label, r))

    def __rich__(self) -> RenderableType:
        title = Text(f"\n{self.comparison.benchmark}, {self.comparison.scenario}", style="bold")
        first = self.entries[0].records[0]
        title.append(f"  {unit(first)}, mean over tasks{describe_test_data(first)}\n", style="")
        return Group(title, _Fitted(self.entries), Text("\n" + "\n".join(_notes(self.entries))))

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"<ComparisonTable of {', '.join(self.methods)}, in {self.folder}>"

    def _repr_html_(self) -> str:
        return as_html(str(self))


# The table

_METHOD, _INFERRED, _PUBLISHED = "method", "task\ninferred\nright", "published"
_AT_THE_END, _RIGHT_AFTER = "at the end", "right after"
_BESIDE, _BELOW = " ± ", "\n± "


@dataclass(frozen=True)
class _Fitted:
    """The table as the terminal allows: each error beside its mean, or below it where it is too narrow for that."""

    entries: Sequence[Entry]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        table = _table(self.entries, _BESIDE)
        yield table if fits(table, console, options) else _table(self.entries, _BELOW)


def _table(entries: Sequence[Entry], plus_minus: str) -> Table:
    columns = {
        _METHOD: [_name(e) for e in entries],
        _AT_THE_END: [_spread([r.accuracy.final.value for r in e.finished], e) for e in entries],
        _RIGHT_AFTER: [_spread([r.accuracy.during.value for r in e.finished], e) for e in entries],
        "change": [_spread([_change(r) for r in e.finished], e) for e in entries],
        _INFERRED: [_spread([identification_accuracy(r) for r in e.finished], e) for e in entries],
        "kept\nin all": [describe_kept_in_all(e.records[0]) for e in entries],
        "kept per\ntask": [describe_kept_per_task(e.records[0]) for e in entries],
        "ms per\nstep": [in_form(_mean([ms_per_step(r) for r in e.finished]), ".2f") for e in entries],
        _PUBLISHED: [e.records[0].published for e in entries],
    }
    for column in (_INFERRED, _PUBLISHED):  # not every benchmark and method has them
        if all(cell in ("", "·") for cell in columns[column]):
            del columns[column]
    table = Table(box=SIMPLE_HEAD, show_edge=False, pad_edge=False, padding=(0, 1, 0, 0))
    for column in columns:
        justify: JustifyMethod = "left" if column in (_METHOD, _PUBLISHED) else "right"
        long = column in (_METHOD, _AT_THE_END, _RIGHT_AFTER, _PUBLISHED)  # what takes two lines in a narrow terminal
        table.add_column(column, justify=justify, overflow="fold", no_wrap=not long)
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*(Text(cell.replace(_BESIDE, plus_minus)) for cell in cells))
    return table


def _name(entry: Entry) -> str:
    finished, failed = len(entry.finished), len(entry.failures)
    if finished == len(entry.records):
        return entry.label
    return f"{entry.label} ({finished} of {len(entry.records)} seeds" + (f", {failed} failed)" if failed else ")")


def _change(record: RunRecord) -> float:
    return record.accuracy.final.value - record.accuracy.during.value


def _mean(values: Sequence[float]) -> float:
    return mean_and_sem(values)[0] if values else math.nan


def _spread(values: Sequence[float], entry: Entry) -> str:
    return format_spread(values or [math.nan], entry.records[0])


def _notes(entries: Sequence[Entry]) -> list[str]:
    seeds = max(len(e.records) for e in entries)
    finished, runs = sum(len(e.finished) for e in entries), sum(len(e.records) for e in entries)
    lines = ["1 seed for each method" if seeds == 1 else f"{seeds} seeds for each method, mean ± SEM"]
    if finished < runs:
        lines[0] += f"; {finished} of {runs} runs are finished"
    if shared := _shared_changes(entries):
        lines.append(f"In all methods: {', '.join(shared)}")
    lines += [f"{e.label}: seed {seed} failed: {reason}" for e in entries for seed, reason in e.failures.items()]
    lines += [f"{e.label}: {alarm}" for e in entries for r in e.records for alarm in r.alarms]
    needed = dict.fromkeys(module for e in entries for r in e.records for module in r.plugins)
    lines += [note] if (note := note_of_missing(needed)) else []
    return list(dict.fromkeys(lines))


def _shared_changes(entries: Sequence[Entry]) -> list[str]:
    """Return the settings in which all methods differ from their presets; those of one alone are in its label."""
    first, *others = (entry.records[0].changes for entry in entries)
    return [change for change in first if all(change in other for other in others)]


# The files

RUN_COLUMNS = (
    "label", "preset", "seed", "final", "during", "bwt_gem", "inferred",
    "parameters", "bytes_kept", "per_task", "bytes_per_task", "sees_past", "ms_per_step", "finished",
)  # fmt: skip
TASK_COLUMNS = ("label", "seed", "task", "name", "right_after", "at_the_end")


def run_line(label: str, record: RunRecord) -> list[object]:
    """Return what is known of a run, as a line of a table with a line for each run."""
    a = record.accuracy
    return [
        label, record.preset, record.seed, a.final.value, a.during.value, a.bwt_gem.value,
        identification_accuracy(record), parameters(record), stored_bytes(record),
        int(record.counts["per_task"]), bytes_per_task(record),
        record.counts.get("sees_past", ""), ms_per_step(record), record.finished,
    ]  # fmt: skip


def task_lines(label: str, record: RunRecord) -> Iterable[list[object]]:
    """Return what is known of each task of a run, as a line of a table with a line for each task."""
    values = record.accuracy.values
    for j, name in enumerate(record.task_names):
        yield [label, record.seed, j + 1, name, float(values[j, j]), float(values[-1, j])]


def as_csv(columns: Sequence[str], lines: Iterable[Sequence[object]]) -> str:
    """Return lines as CSV; what is not a number is left empty."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    writer.writerow(columns)
    for line in lines:
        writer.writerow("" if isinstance(cell, float) and math.isnan(cell) else cell for cell in line)
    return text.getvalue()
