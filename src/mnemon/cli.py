"""The command line: it parses words and calls the library. Torch is imported only by the commands that train."""

from __future__ import annotations

import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, NoReturn

from cyclopts import App, CycloptsError, Parameter, UnusedCliTokensError

import mnemon
from mnemon.errors import UsageError

if TYPE_CHECKING:
    from rich.console import Console

    from mnemon.experiments.run import Place
    from mnemon.experiments.study import Job

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


Settings = Annotated[list[str] | None, Parameter(name=["--set", "-s"], consume_multiple=False, negative="")]


@Parameter(name="*")
@dataclass(frozen=True)
class Options:
    """What every command that trains can be told."""

    set_: Settings = None
    """Change a setting: name=value, as often as you like. `mnemon settings` lists them. The end of a name is enough:
    beta is method.beta, replay.beta is method.replay.beta."""
    seeds: int = 1
    """Number of seeds, those that follow on the first one; their runs are parallel processes."""
    seed: int = 0
    """First seed."""
    data: Path | None = None
    """Folder with MNIST and the like. Default: the environment variable MNEMON_DATA, then the cache."""
    device: str = "auto"
    """cpu, cuda, mps or auto."""
    workers: int | None = None
    """Processes at a time when there are several runs. Default: the number of cores."""
    threads: int = 1
    """Threads per process."""
    quiet: Annotated[bool, Parameter(negative="")] = False
    """Show no progress, only the result."""

    @property
    def overrides(self) -> list[str]:
        """The settings that are changed."""
        return self.set_ or []

    @property
    def all_seeds(self) -> range:
        """The seeds of the runs."""
        return range(self.seed, self.seed + self.seeds)

    def check(self, out: Path | None, resume: Path | None) -> None:
        """Refuse what makes no sense, alone or beside a folder to go on with."""
        workers = 1 if self.workers is None else self.workers
        for name, value in (("--seeds", self.seeds), ("--workers", workers), ("--threads", self.threads)):
            if value < 1:
                raise UsageError(f"{name} must be at least 1, not {value}.")
        if self.seed < 0:
            raise UsageError(f"--seed must not be negative, not {self.seed}.")
        if resume is not None and out is not None:
            raise UsageError("--resume goes on in its own folder: leave out --out.")
        if resume is not None and (self.seeds, self.seed) != (1, 0):
            raise UsageError("--resume goes on with the seeds of its folder: leave out --seeds and --seed.")

    def place(self) -> Place:
        """Return where to compute, if there is such a place."""
        from mnemon.experiments.run import Place, pick_device

        pick_device(self.device)
        return Place(self.device, self.data, self.threads)

    def go_on(self, command: str, folder: Path) -> str:
        """Return what to type to go on with a folder."""
        words = ["mnemon", command, "--resume", str(folder)]
        for option, value, default in (
            ("--data", self.data, None),
            ("--device", self.device, "auto"),
            ("--threads", self.threads, 1),
        ):
            if value != default:
                words += [option, str(value)]
        return shlex.join(words)


AS_USUAL = Options()


@app.command
def run(
    preset: str | None = None,
    /,
    *,
    out: Path | None = None,
    resume: Path | None = None,
    options: Options = AS_USUAL,
) -> int:
    """Learn the tasks of a preset one after another, and show what was remembered.

    Ctrl-C saves and says how to go on; nothing is lost.

    Parameters
    ----------
    preset
        Name of a preset (see `mnemon presets`) or path of a TOML file like one. Default: split-digits.
    out
        New folder for the run. Default: runs/PRESET-TIME.
    resume
        Folder of a run (or of several seeds) to go on with.
    """
    options.check(out, resume)

    from mnemon.experiments.preset import DEFAULT, load_preset
    from mnemon.experiments.run import resolve
    from mnemon.experiments.study import new_jobs, resumed_jobs

    place = options.place()
    if resume is not None:
        folder, jobs = resume, resumed_jobs(resume, load_preset(preset) if preset else None, options.overrides)
    else:
        config = resolve(load_preset(preset or DEFAULT), options.overrides)
        folder, jobs = new_jobs(config, options.all_seeds, out, place)
    if not jobs:
        _say(f"The run in {folder} is finished; there is nothing to go on with.")
    if _stopped(jobs, place, options, options.go_on("run", folder)):
        return 130
    _report(folder)
    return 0


@app.command
def compare(
    *method: Annotated[str, Parameter(name="METHOD")],
    benchmark: str | None = None,
    scenario: str | None = None,
    out: Path | None = None,
    resume: Path | None = None,
    options: Options = AS_USUAL,
) -> int:
    """Learn the same tasks with several methods, on all cores at a time, and show them in one table.

    `mnemon compare hypernet joint --seeds 3` compares two methods;
    `mnemon compare hypernet:beta=0.01 hypernet:beta=0.1` two variants of one.
    Ctrl-C saves and says how to go on; nothing is lost.

    Parameters
    ----------
    method
        What to compare, as many as you like: the end of a preset's name (hnet-r is split-mnist-cl3-hnet-r for that
        benchmark and scenario), a whole preset or TOML file, or a method, which is put into the benchmark's preset.
        METHOD:name=value,name=value changes settings of this one alone.
    benchmark
        Preset whose tasks are learned. Default: split-digits.
    scenario
        cl1 (the task is told), cl2 (it is not, all tasks share one head) or cl3 (it is not, all classes compete).
        Default: cl1.
    out
        New folder for the runs. Default: runs/compare-BENCHMARK-SCENARIO-TIME.
    resume
        Folder of a comparison to go on with.
    """
    options.check(out, resume)
    if resume is not None and (method or benchmark or scenario or options.set_):
        raise UsageError(
            "--resume goes on with the methods and settings of its folder: leave out METHOD, --benchmark, "
            "--scenario and --set."
        )

    from mnemon.experiments.compare import begin_runs, keep_failures, make_plan, resumed_runs
    from mnemon.experiments.study import StudyError

    place = options.place()
    if resume is not None:
        folder, jobs = resume, resumed_runs(resume)
    else:
        plan = make_plan(method, benchmark, scenario, options.overrides)
        folder, jobs = begin_runs(plan, options.all_seeds, out, place)
    if not jobs:
        _say(f"The comparison in {folder} is finished; there is nothing to go on with.")
    try:
        if _stopped(jobs, place, options, options.go_on("compare", folder)):
            return 130
    except StudyError as error:  # the other runs are finished
        keep_failures(folder, error.failures)
        _report(folder)
        raise
    _report(folder)
    return 0


def _stopped(jobs: list[Job], place: Place, options: Options, go_on: str) -> bool:
    """Run the jobs; return whether they were stopped, after having said how to go on."""
    from mnemon.experiments.progress import Display
    from mnemon.experiments.run import stop_on_signal
    from mnemon.experiments.study import run_jobs
    from mnemon.training.trainer import Stopped

    try:
        with stop_on_signal() as should_stop, Display(jobs, _console(), options.quiet) as display:
            run_jobs(jobs, place, options.workers or _cores(), display.on_event, should_stop, go_on)
    except (Stopped, KeyboardInterrupt) as stop:
        saved = "everything is saved" if isinstance(stop, Stopped) else "at once, the last checkpoint is kept"
        _say(f"Stopped; {saved}. Go on with: {go_on}")
        return True
    return False


def _cores() -> int:
    """Count the cores that this process may use, which can be fewer than the machine has."""
    import os

    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _report(folder: Path) -> None:
    """Show what came out, keep it beside the runs, and say where everything is."""
    from mnemon.results import comparison, samples
    from mnemon.results.record import find_runs, write_text

    _show(folder, _console())
    write_text(folder / "summary.txt", _as_text(folder))
    report = "this report: summary.txt"
    if comparison.is_comparison(folder):
        comparison.write_numbers(folder)
        report += f"; its numbers: {comparison.RUNS}, those of each task: {comparison.TASKS}"
    else:
        for path in find_runs(folder):
            if (sheet := path / samples.FOLDER / samples.SHEET).exists():
                _say(f"What was replayed, right after each task and at the end: {sheet}")
    _say(f"Kept in {folder} ({report}); show it again: mnemon show {shlex.quote(str(folder))}")


def _say(text: str) -> None:
    _console().print(text, soft_wrap=True)


def _show(folder: Path, console: Console) -> None:
    from mnemon.results import comparison
    from mnemon.results.record import RunRecord, find_runs
    from mnemon.results.tables import matrix_table, summary

    if comparison.is_comparison(folder):
        console.print(comparison.shown(folder))
        return
    records = [RunRecord.read(path) for path in find_runs(folder)]
    console.print(summary(records))
    if len(records) == 1:
        console.print(matrix_table(records[0]))


def _as_text(folder: Path) -> str:
    import io

    from rich.console import Console

    text = io.StringIO()
    _show(folder, Console(file=text, width=120, markup=False, highlight=False))
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
    set_: Settings = None,
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
    """Show a run, or all seeds below a folder: tasks, metrics, accuracy matrix; or a comparison: its table.

    Parameters
    ----------
    run_
        Folder of a run, of several seeds or of a comparison.
    """
    _show(run_, _console())


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
