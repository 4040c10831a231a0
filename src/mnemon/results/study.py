"""Several runs of one experiment, which differ only in their seeds."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rich.console import Group, RenderableType

from mnemon.errors import choose
from mnemon.results.comparison import RUN_COLUMNS, TASK_COLUMNS, run_line, task_lines
from mnemon.results.frame import as_frame
from mnemon.results.metrics import METRICS, mean_and_sem
from mnemon.results.record import RunRecord, find_runs
from mnemon.results.runs import Complete, as_it_is, read_runs
from mnemon.results.terminal.console import as_html, as_text
from mnemon.results.terminal.tables import check_same_experiment, matrix_table, summary

if TYPE_CHECKING:
    import pandas


@dataclass(frozen=True, repr=False)
class Study:
    """Several runs of one experiment, which differ only in their seeds.

    Example:
        >>> study = mnemon.run("toy", seeds=2, settings={"steps": 5}, workers=1, report=False, quiet=True)
        >>> study.seeds, len(study.finished)
        ([0, 1], 2)
        >>> mean, sem = study.metric("during")
        >>> print(f"{study.mean:.2f} ± {study.sem:.2f}")  # doctest: +SKIP
        0.42 ± 0.03
    """

    folder: Path
    """The folder that holds the runs, or the run itself where there is only one."""
    records: Sequence[RunRecord]
    """One record for each seed."""

    @classmethod
    def read(cls, folder: str | Path, complete: Complete = as_it_is) -> Study:
        """Read all runs at or below a folder.

        Args:
            folder: The folder of a run, or of several seeds.
            complete: Gives records of earlier versions the settings that they lack (see `read_runs`).

        Returns:
            The runs, finished or not.

        Raises:
            UsageError: If there is no run, if one is damaged, or if they differ in more than their seeds.
        """
        records = list(read_runs(find_runs(Path(folder)), complete).values())
        check_same_experiment(records)
        return cls(Path(folder), records)

    @property
    def name(self) -> str:
        """What was run."""
        return self.records[0].name

    @property
    def finished(self) -> list[RunRecord]:
        """The records of the runs that are finished: only these count."""
        return [record for record in self.records if record.finished]

    @property
    def seeds(self) -> list[int]:
        """The seeds of the runs."""
        return [record.seed for record in self.records]

    @property
    def mean(self) -> float:
        """The mean over seeds of the final accuracy (or error); NaN if no run is finished."""
        return self.metric("final")[0]

    @property
    def sem(self) -> float:
        """The standard error of `mean`; NaN for a single seed."""
        return self.metric("final")[1]

    def metric(self, name: str) -> tuple[float, float]:
        """Return the mean over seeds of a metric, with its standard error.

        Args:
            name: One of `final`, `during`, `bwt_gem`, `fwt_gem`, `forgetting_chaudhry`, `forgetting_avalanche`.
        """
        choose("metric", name, dict.fromkeys(METRICS))
        values = [record.accuracy.metrics[name].value for record in self.finished]
        return mean_and_sem(values) if values else (float("nan"), float("nan"))

    def to_pandas(self, tasks: bool = False) -> pandas.DataFrame:
        """Return a data frame with a row for each run.

        Args:
            tasks: One row for each run and task.

        Raises:
            UsageError: If pandas is not installed.
        """
        if tasks:
            return as_frame(TASK_COLUMNS, (line for r in self.records for line in task_lines(r.name, r)))
        return as_frame(RUN_COLUMNS, (run_line(r.name, r) for r in self.records))

    def __rich__(self) -> RenderableType:
        matrix = [matrix_table(self.records[0])] if len(self.records) == 1 else []
        return Group(summary(self.records), *matrix)

    def __str__(self) -> str:
        return as_text(self)

    def __repr__(self) -> str:
        return f"<Study {self.name}: {len(self.finished)} of {len(self.records)} runs finished, in {self.folder}>"

    def _repr_html_(self) -> str:
        return as_html(str(self))

    def __len__(self) -> int:
        return len(self.records)

    def __iter__(self) -> Iterator[RunRecord]:
        return iter(self.records)
