"""The command line: it parses words and calls the library. Torch is imported only by the commands that train."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

import mnemon
from mnemon.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from mnemon.experiments.run import Place
    from mnemon.experiments.study import Job
    from mnemon.results.record import RunRecord

app = App(
    name="mnemon",
    help="Continual learning with task-conditioned hypernetworks: learn tasks one after another, remember them all.",
    version=mnemon.__version__,
    version_flags=["--version"],
)


def main(words: Sequence[str] | None = None) -> NoReturn:
    """Run a command; a user's error is one line and exit code 2."""
    words = sys.argv[1:] if words is None else words
    try:
        code = app(words, exit_on_error=False, print_error=False, result_action="return_value")
    except (UsageError, CycloptsError) as error:
        text = " ".join(_in_words(error).split())
        _console(stderr=True).print(f"mnemon: {text}", style="red", soft_wrap=True)
        code = 2
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:  # the reader (such as head) has gone
        sys.stderr.close()
        code = 0
    sys.exit(code or 0)


def _console(stderr: bool = False) -> Console:
    from rich.console import Console

    return Console(stderr=stderr, markup=False, highlight=False)


def _in_words(error: Exception) -> str:
    if isinstance(error, UnusedCliTokensError):
        return f"Too many words: {' '.join(error.unused_tokens or ())}. See: mnemon --help"
    return str(error)


@app.command
def run(
    preset: str | None = None,
    /,
    *,
    set_: Annotated[list[str] | None, Parameter(name=["--set", "-s"], consume_multiple=False, negative="")] = None,
    seeds: int = 1,
    seed: int = 0,
    out: Path | None = None,
    resume: Path | None = None,
    data: Path | None = None,
    device: str = "auto",
    workers: int | None = None,
    threads: int = 1,
    quiet: Annotated[bool, Parameter(negative="")] = False,
) -> int:
    """Learn the tasks of a preset one after another, and show what was remembered.

    Ctrl-C saves and says how to go on; nothing is lost.

    Parameters
    ----------
    preset
        Name of a preset (see `mnemon presets`) or path of a TOML file like one. Default: split-digits.
    set_
        Change a setting: name=value, as often as you like. `mnemon settings` lists them. The end of a name is enough:
        beta is method.beta, replay.beta is method.replay.beta.
    seeds
        Number of runs, with the seeds that follow on the first one; they run in parallel processes.
    seed
        First seed.
    out
        New folder for the run. Default: runs/PRESET-TIME.
    resume
        Folder of a run (or of several seeds) to go on with.
    data
        Folder with MNIST and the like. Default: the environment variable MNEMON_DATA, then the cache.
    device
        cpu, cuda, mps or auto.
    workers
        Processes at a time when there are several seeds. Default: the number of cores.
    threads
        Threads per process.
    quiet
        Show no progress, only the result.
    """
    for name, value in (("--seeds", seeds), ("--workers", 1 if workers is None else workers), ("--threads", threads)):
        if value < 1:
            raise UsageError(f"{name} must be at least 1, not {value}.")
    if seed < 0:
        raise UsageError(f"--seed must not be negative, not {seed}.")
    if resume is not None and out is not None:
        raise UsageError("--resume goes on in its own folder: leave out --out.")
    if resume is not None and (seeds, seed) != (1, 0):
        raise UsageError("--resume goes on with the seeds of its folder: leave out --seeds and --seed.")

    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run import Place, pick_device, resolve
    from mnemon.experiments.study import new_jobs, resumed_jobs

    pick_device(device)
    place = Place(device, data, threads)
    if resume is not None:
        folder, jobs = resume, resumed_jobs(resume, load_preset(preset) if preset else None, set_ or ())
    else:
        config = resolve(load_preset(preset or DEFAULT), set_ or ())
        folder, jobs = new_jobs(config, range(seed, seed + seeds), out, place)
    return _train(folder, jobs, place, workers, quiet)


def _train(folder: Path, jobs: list[Job], place: Place, workers: int | None, quiet: bool) -> int:
    from mnemon.experiments.progress import Display
    from mnemon.experiments.run import stop_on_signal
    from mnemon.experiments.study import run_jobs
    from mnemon.results import samples
    from mnemon.results.record import RunRecord, find_runs, write_text
    from mnemon.training.trainer import Stopped

    console = _console()
    if not jobs:
        console.print(f"The run in {folder} is finished; there is nothing to go on with.", soft_wrap=True)
    try:
        with stop_on_signal() as should_stop, Display(jobs, console, quiet) as display:
            run_jobs(jobs, place, workers or _cores(), display.on_event, should_stop)
    except (Stopped, KeyboardInterrupt) as stop:
        saved = "everything is saved" if isinstance(stop, Stopped) else "at once, the last checkpoint is kept"
        console.print(
            f"Stopped; {saved}. Go on with: {_resume_words(folder, place)}", soft_wrap=True, highlight=False
        )
        return 130
    records = [RunRecord.read(path) for path in find_runs(folder)]
    _show(records, console)
    write_text(folder / "summary.txt", _as_text(records))
    for path in find_runs(folder):
        if (sheet := path / samples.FOLDER / samples.SHEET).exists():
            console.print(f"What was replayed, right after each task and at the end: {sheet}", soft_wrap=True)
    console.print(
        f"Kept in {folder} (this report: summary.txt); show it again: mnemon show {shlex.quote(str(folder))}",
        soft_wrap=True,
    )
    return 0


def _cores() -> int:
    """Count the cores that this process may use, which can be fewer than the machine has."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _resume_words(folder: Path, place: Place) -> str:
    words = ["mnemon", "run", "--resume", str(folder)]
    for option, value, default in (
        ("--data", place.data, None),
        ("--device", place.device, "auto"),
        ("--threads", place.threads, 1),
    ):
        if value != default:
            words += [option, str(value)]
    return shlex.join(words)


def _show(records: list[RunRecord], console: Console) -> None:
    from mnemon.results.tables import matrix_table, summary

    console.print(summary(records))
    if len(records) == 1:
        console.print(matrix_table(records[0]))


def _as_text(records: list[RunRecord]) -> str:
    import io

    from rich.console import Console

    text = io.StringIO()
    _show(records, Console(file=text, width=120, markup=False, highlight=False))
    return text.getvalue()


@app.command
def presets() -> None:
    """List the presets: what each is, what it costs on one core, and the published number."""
    from rich.padding import Padding
    from rich.text import Text

    from mnemon.experiments.preset import DEFAULT, all_presets

    console = _console()
    for p in all_presets():
        published = f"; published: {p.published}" if p.published else ""
        name = Text(p.name, style="bold").append(" (default)" if p.name == DEFAULT else "")
        facts = Text(f"{p.about} Time per seed: {p.cost}{published}")
        console.print(name, Padding(facts, (0, 0, 0, 4)))


@app.command(name="settings")
def show_settings(
    preset: str | None = None,
    /,
    *,
    set_: Annotated[list[str] | None, Parameter(name=["--set", "-s"], consume_multiple=False, negative="")] = None,
) -> None:
    """List every setting of a preset with its value and what it means.

    Parameters
    ----------
    preset
        Name of a preset (see `mnemon presets`) or path of a TOML file like one. Default: split-digits.
    set_
        Change a setting, as in `mnemon run`.
    """
    from rich.table import Table

    from mnemon.config import setting_paths
    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run import REGISTRIES, resolve, schema

    values = resolve(load_preset(preset or DEFAULT), set_ or ()).plain()
    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("setting", "value", "meaning"):
        table.add_column(column, overflow="fold", no_wrap=column == "setting")
    for section, cls in schema(values).items():
        if "name" in values[section] and section in ("benchmark", "method"):
            table.add_row(section, values[section]["name"], f"Choose one of: {', '.join(REGISTRIES[section])}.")
        for path, meaning in setting_paths(cls, f"{section}.").items():
            value: object = values
            for key in path.split("."):
                value = value[key]  # type: ignore[index]
            table.add_row(path, str(value), meaning)
    _console().print(table)


@app.command
def show(run_: Annotated[Path, Parameter(name="RUN")], /) -> None:
    """Show a run, or all seeds below a folder: tasks, metrics, accuracy matrix.

    Parameters
    ----------
    run_
        Folder of a run or of several seeds.
    """

    from mnemon.results.record import RunRecord, find_runs

    _show([RunRecord.read(path) for path in find_runs(run_)], _console())


@app.command
def data(*, data: Path | None = None) -> None:
    """Show the data sets: present or not, where, verified or not, and how to get them.

    Parameters
    ----------
    data
        Folder to look in first. Default: the environment variable MNEMON_DATA, then the cache.
    """
    from rich.table import Table

    from mnemon.benchmarks.sources import status

    table = Table(box=None, padding=(0, 2, 0, 0))
    for column in ("data set", "state", "where", "how to get it"):
        table.add_column(column, overflow="fold")
    for s in status(data):
        state = "verified" if s.verified else f"damaged: {s.problem}" if s.present else s.problem or "missing"
        table.add_row(s.name, state, str(s.where or "-"), s.how)
    _console().print(table)
