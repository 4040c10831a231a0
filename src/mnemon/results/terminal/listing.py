"""What is below a folder, a line each: runs, comparisons, sweeps. It is read without torch."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from mnemon.errors import UsageError
from mnemon.results import comparison, sweep
from mnemon.results.comparison import Comparison
from mnemon.results.record import RECORD, RunRecord, find_runs
from mnemon.results.sweep import SweepRecord
from mnemon.results.terminal.tables import describe_test_data, format_spread
from mnemon.whole_files import is_there

FINISHED = "finished"
MOST_METHODS = 4
"""Methods of a comparison that are named."""


@dataclass(frozen=True)
class ListedRun:
    """A run with all its seeds, a comparison or a sweep."""

    folder: Path
    what: str
    """Its method and seeds; of a comparison its methods, of a sweep its preset."""
    state: str
    """Finished, or how far it is."""
    final: str
    """The mean over tasks and finished seeds after the last task; of several methods or trials the best. It may be
    empty: nothing is finished yet."""
    begun: str

    @property
    def about(self) -> str:
        """What it is, how far, and what it came to."""
        return "; ".join(part for part in (f"{self.what}: {self.state}", self.final) if part)


@dataclass
class Listing:
    """What is below a folder."""

    lines: list[ListedRun] = field(default_factory=list)
    """Those that were begun last at the end."""
    damaged: list[str] = field(default_factory=list)
    """What is wrong with those that cannot be read."""


def list_runs(folder: Path) -> Listing:
    """Return what is at or below a folder; what is damaged is named and does not hide the rest."""
    if not is_there(folder):
        raise UsageError(f"There is no folder {folder}.")
    found = Listing()
    for home, line_of in _places(folder):
        with _note_damage(found):
            if line := line_of(home, found):
                found.lines.append(line)
    found.lines.sort(key=lambda line: line.begun)
    return found


_LineOf = Callable[[Path, Listing], "ListedRun | None"]
"""Returns the line of a folder, and adds to a listing what is damaged in it."""


def _places(folder: Path) -> Iterator[tuple[Path, _LineOf]]:
    """Give the folders that have a line of their own, and what makes it; what is within them has none."""
    for home, inner, files in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        path = Path(home)
        holds = {sweep.FILE: _sweep_line, comparison.FILE: _comparison_line, RECORD: _run_line}
        line_of = next((line_of for file, line_of in holds.items() if file in files), None)
        seeds = [name for name in inner if name.startswith("seed-") and is_there(path / name / RECORD)]
        if line_of is not None:
            inner.clear()
            yield path, line_of
        elif seeds:
            inner[:] = [name for name in inner if name not in seeds]
            yield path, _seeds_line


@contextmanager
def _note_damage(found: Listing) -> Iterator[None]:
    """Keep what is damaged for the end."""
    try:
        yield
    except UsageError as error:
        found.damaged.append(str(error))


def _read(paths: Sequence[Path], found: Listing) -> list[RunRecord]:
    records = []
    for path in paths:
        with _note_damage(found):
            records.append(RunRecord.read(path, losses=False))
    return records


# The lines


def _run_line(folder: Path, found: Listing) -> ListedRun | None:
    return _line_of_runs(folder, _read([folder], found))


def _seeds_line(folder: Path, found: Listing) -> ListedRun | None:
    return _line_of_runs(folder, _read(find_runs(folder), found))


def _line_of_runs(folder: Path, records: list[RunRecord]) -> ListedRun | None:
    if not records:
        return None
    first, n = records[0], len(records)
    done, learned = sum(record.finished for record in records), sum(len(record.matrix) for record in records)
    seeds = f"{done} of {n} seeds finished, " if n > 1 else ""
    far = f"{seeds}{learned} of {n * len(first.task_names)} tasks learned"
    method = str(first.config.get("method", {}).get("name", "?"))
    named = folder.name.startswith(first.preset)  # after its preset, as a run is unless the user names its folder
    what = f"{method if named else f'{first.preset}, {method}'}, {_seeds(n)}"
    return ListedRun(folder, what, FINISHED if done == n else far, _final(records), _begun(records))


def _seeds(n: int) -> str:
    return "1 seed" if n == 1 else f"{n} seeds"


def _final(records: Sequence[RunRecord]) -> str:
    """Return what the finished runs of a method came to, with the spread over seeds."""
    values = [record.accuracy.final.value for record in records if record.finished]
    if not values:
        return ""
    numbers = format_spread(values, records[0])
    number = f"mean squared error {numbers}" if records[0].metric == "mse" else f"accuracy {numbers} %"
    return f"final {number}{describe_test_data(records[0])}"


def _begun(records: Sequence[RunRecord]) -> str:
    return min(record.started for record in records)[:16].replace("T", " ")


def _comparison_line(folder: Path, found: Listing) -> ListedRun | None:
    read = Comparison.read(folder)
    runs = {label: _read(find_runs(folder / name), found) for label, name in read.folders.items()}
    records = [record for some in runs.values() for record in some]
    if not records:
        return None
    done = sum(record.finished for record in records)
    more = f" and {len(runs) - MOST_METHODS} more" if len(runs) > MOST_METHODS else ""
    what = f"comparison of {', '.join(list(runs)[:MOST_METHODS])}{more}, {_seeds(max(map(len, runs.values())))}"
    state = FINISHED if done == len(records) else f"{done} of {len(records)} runs finished"
    return ListedRun(folder, what, state, _best(runs), _begun(records))


def _best(runs: dict[str, list[RunRecord]]) -> str:
    """Return what the best of all methods with finished runs came to, with its name."""
    means = {}
    for label, records in runs.items():
        if values := [record.accuracy.final.value for record in records if record.finished]:
            sign = -1 if records[0].metric == "mse" else 1
            means[label] = sign * sum(values) / len(values)
    best = max(means, key=lambda label: means[label], default=None)
    return f"best {_final(runs[best])} ({best})" if best is not None else ""


def _sweep_line(folder: Path, found: Listing) -> ListedRun:
    record, trials = SweepRecord.read(folder), sweep.read_trials(folder)
    done = sum(trial.state in sweep.COUNTED for trial in trials)
    state = FINISHED if done >= record.trials else f"{done} of {record.trials} trials done"
    first = min(path.stat().st_mtime for path in folder.iterdir())  # what is searched is written once, at the start
    begun = time.strftime("%Y-%m-%d %H:%M", time.localtime(first))
    best = sweep.rank(trials, record.metric)
    score = f"best score {sweep.score(best[0].score, record)}, {sweep.describe_criterion(record)}" if best else ""
    return ListedRun(folder, f"sweep of {record.preset}", state, score, begun)
