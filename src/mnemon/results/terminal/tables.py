"""What a run or a study came to, as tables for the terminal."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.table import Table
from rich.text import Text

from mnemon.config import differences, first_of
from mnemon.errors import UsageError
from mnemon.plugins import note_of_missing
from mnemon.results.costs import describe_kept_in_all
from mnemon.results.metrics import METRICS, mean_and_sem
from mnemon.results.naming import describe_changes
from mnemon.results.record import RunRecord

MOST_TASKS = 10
"""Tasks shown in full; of longer streams the first and last are shown."""
_ENDLESS = 10_000


def summary(records: Sequence[RunRecord]) -> RenderableType:
    """Show the runs of one experiment: tasks, metrics, counts, times.

    Numbers are of the finished runs; of all, where none is finished.
    """
    check_same_experiment(records)
    counted = [record for record in records if record.finished] or records
    return Group(_title(records, counted), _task_table(counted), _metric_table(counted), _facts(counted))


def check_same_experiment(records: Sequence[RunRecord]) -> None:
    """Refuse runs that differ in more than their seeds: their mean would say nothing."""
    first, remedy = records[0], "Name the folder of one of them."
    for i, r in enumerate(records):
        if r.preset != first.preset:
            raise UsageError(f"There are runs of different experiments here: {first.preset} and {r.preset}. {remedy}")
        if different := differences(first.config, r.config):
            raise UsageError(f"There are runs with different settings here: {first_of(different)}. {remedy}")
        if subject(r) != subject(first):
            raise UsageError(f"There are runs with the same settings and different tasks here. {remedy}")
        if r.seed in (other.seed for other in records[:i]):
            raise UsageError(f"There are two runs of {r.name} with seed {r.seed} here. {remedy}")


def subject(record: RunRecord) -> tuple[str, str, list[str]]:
    """Return what runs must have in common, beside their settings, for their numbers to be averaged."""
    return record.preset, record.metric, tasks_of(record)


def tasks_of(record: RunRecord) -> list[str]:
    """Return the tasks of a run as all seeds of it have them: by number only, where each seed draws its own."""
    return [str(j + 1) for j in range(len(record.task_names))] if draws_tasks(record) else record.task_names


def draws_tasks(record: RunRecord) -> bool:
    """Tell whether each seed has tasks of its own."""
    return bool(record.config.get("benchmark", {}).get("pairs") == "shuffled")


def names_over_seeds(records: Sequence[RunRecord]) -> list[str]:
    """Return the names of the tasks of some seeds, which may have drawn their own."""
    every = zip(*(record.task_names for record in records), strict=True)
    return [names[0] if len(set(names)) == 1 else "drawn by seed" for names in every]


def matrix_table(record: RunRecord) -> RenderableType:
    """Show the accuracy matrix of one run: a row per task learned, a column per task tested."""
    table = Table(box=None, padding=(0, 1, 0, 0), pad_edge=False)
    shown = _choose_tasks(len(record.task_names))
    table.add_column("after")
    for j in shown:
        table.add_column("…" if j is None else str(j + 1), justify="right", no_wrap=True)
    for i in shown:
        if i is None:
            table.add_row(*["…"] * (len(shown) + 1))
        elif i < len(record.matrix):
            row = record.matrix[i]
            table.add_row(str(i + 1), *("…" if j is None else _number(row[j], record) for j in shown))
    title = f"\n{unit(record)} on each task (columns) after each task (rows), seed {record.seed}"
    return Group(Text(title, style="italic"), table)


def _choose_tasks(n: int) -> list[int | None]:
    """Return the tasks that are shown; None where some are left out."""
    if n <= MOST_TASKS:
        return list(range(n))
    half = MOST_TASKS // 2
    return [*range(half), None, *range(n - half, n)]


def unit(record: RunRecord) -> str:
    """Say what the numbers of a record are."""
    return "Accuracy (%)" if record.metric == "accuracy" else "Mean squared error"


def describe_test_data(record: RunRecord) -> str:
    """Say on what was tested, unless it was the test data, each input by itself."""
    held_out = record.config.get("training", {}).get("held_out", 0.0)
    vote = inputs_per_vote(record)
    said = ", tested on held-out training data" if held_out else ""
    return said + (f", by votes of {vote} inputs" if vote > 1 else "")


def inputs_per_vote(record: RunRecord) -> int:
    """Return how many inputs in a row had one vote about their task."""
    return int(record.config.get("method", {}).get("vote", 1))


def fits(table: Table, console: Console, options: ConsoleOptions) -> bool:
    """Say whether a table is shown whole, with no cell folded."""
    return console.measure(table, options=options.update(max_width=_ENDLESS)).maximum <= options.max_width


def in_form(value: float, form: str) -> str:
    """Show a number; a dot where it is missing."""
    return "·" if math.isnan(value) else format(value, form)


def _number(value: float, record: RunRecord) -> str:
    return in_form(round(value, record.digits) + 0.0, f".{record.digits}f")  # + 0.0, or there would be a -0.00


def format_spread(values: Iterable[float], record: RunRecord) -> str:
    """Show mean ± standard error of the mean, in the unit of a record."""
    mean, sem = mean_and_sem(list(values))
    return _number(mean, record) + ("" if math.isnan(sem) else f" ± {_number(sem, record)}")


def _title(records: Sequence[RunRecord], counted: Sequence[RunRecord]) -> Text:
    first, n = records[0], len(counted)
    some = f"{n} seeds" if n == len(records) else f"{n} of {len(records)} seeds"
    seeds = f"seed {first.seed}" if len(records) == 1 else some if n == 1 else f"{some}, mean ± SEM"
    method = first.config.get("method", {}).get("name", "")
    text = Text(f"\n{first.name}", style="bold")
    text.append(f"  {method}, {seeds}", style="")
    unfinished = [r for r in records if not r.finished]
    if unfinished:
        text.append(f"  ({len(unfinished)} not finished)", style="yellow")
    if said := describe_changes(first.preset, first.changes):
        text.append(f"\n{said}", style="")
    if note := note_of_missing(first.plugins):
        text.append(f"\n{note}", style="yellow")
    return text


def _task_table(records: Sequence[RunRecord]) -> Table:
    first = records[0]
    table = Table()
    for column, justify in (
        ("task", "left"),
        ("right after", "right"),
        ("at the end", "right"),
        ("change", "right"),
    ):
        table.add_column(column, justify=justify)  # type: ignore[arg-type]
    matrices, names = [r.accuracy.values for r in records], names_over_seeds(records)
    shown = _choose_tasks(len(first.task_names))
    for j in shown:
        if j is None:
            table.add_row("…", "…", "…", "…")
            continue
        during, final = [m[j, j] for m in matrices], [m[-1, j] for m in matrices]
        change = [b - a for a, b in zip(during, final, strict=True)]
        table.add_row(
            f"{j + 1}: {names[j]}",
            format_spread(during, first),
            format_spread(final, first),
            format_spread(change, first),
        )
    metrics = [r.accuracy for r in records]
    during, final = [m.during.value for m in metrics], [m.final.value for m in metrics]
    table.add_section()
    table.add_row(
        "mean", format_spread(during, first), format_spread(final, first),
        format_spread([b - a for a, b in zip(during, final, strict=True)], first), style="bold",
    )  # fmt: skip
    table.title = f"{unit(first)} on each task{describe_test_data(first)}"
    table.title_justify = "left"
    return table


def _metric_table(records: Sequence[RunRecord]) -> Table:
    first, table = records[0], Table(box=None, padding=(0, 2, 0, 0), show_header=False)
    for name in METRICS:
        metrics = [r.accuracy.metrics[name] for r in records]
        reason = next((m.reason for m in metrics if m.reason), "")
        value = f"none: {reason}" if reason else format_spread((m.value for m in metrics), first)
        table.add_row(name, value)
    inferred = [r.inferred[-1] for r in records if r.inferred]
    if any(not math.isnan(value) for row in inferred for value in row):
        table.add_row("task identification accuracy", format_spread((_mean(row) for row in inferred), first))
    if drifts := [r.largest_drift for r in records if not math.isnan(r.largest_drift)]:
        table.add_row("replay drift", f"{_mean(drifts):.2g} (mean squared, of the task with the largest drift)")
    if first.published:
        table.add_row("published", first.published)
    return table


def _facts(records: Sequence[RunRecord]) -> Text:
    first = records[0]
    c = first.counts
    per_task = f" + {int(c['n_tasks'])} × {int(c['per_task']):,}" if c["per_task"] else ""
    if c.get("spared"):
        per_task += f" - {int(c['spared']):,}"
    lines = [
        f"parameters   {int(c['learned']):,}{per_task} for a target of {int(c['target']):,}; "
        f"compression {c['compression']:.3f}",
        f"kept         {describe_kept_in_all(first)} after the last task",
    ]
    train, test = (in_form(_mean([r.seconds.get(k, math.nan) for r in records]), ".1f") for k in ("train", "test"))
    lines.append(f"time         {train} s training, {test} s testing per seed")
    text = Text("\n".join(lines))
    for alarm in dict.fromkeys(alarm for r in records for alarm in r.alarms):
        text.append(f"\nalarm        {alarm}", style="yellow")
    return text


def _mean(values: Sequence[float]) -> float:
    return mean_and_sem(values)[0]
