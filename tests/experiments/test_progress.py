"""What is shown while runs go on."""

from __future__ import annotations

import io
import math
import re
from pathlib import Path

import pytest
from rich.console import Console

from mnemon.experiments.compute import Compute
from mnemon.experiments.job import Event, Job, RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.progress import BESIDE, MOST_BARS, Display
from mnemon.experiments.run import execute, new_folder
from mnemon.experiments.run_config import resolve

CONFIG = resolve(load_preset("split-digits"), ["steps=10"])
NAN = math.nan
EVENTS = [
    Event(0, 3, 0, 4, {"task_loss": 0.5}, None),
    Event(0, 3, 0, 0, {}, [90.0, NAN, NAN]),
    Event(1, 3, 1, 0, {}, [80.0, 100.0, 10.0]),
    Event(0, 3, 1, 4, {"task_loss": 0.25, "penalty": 1e-4}, None),
    Event(1, 0, 0, 0, {}, None, "task_loss became nan in [task] 3."),
]
LINES = [
    "seed 7  task 1/3 learned: accuracy 90.0 %, average 90.0 %",
    "seed 8  task 2/3 learned: accuracy 100.0 %, average 90.0 %",
    "seed 8  failed: task_loss became nan in [task] 3.",
]


def jobs(n: int = 2, label: str = "") -> list[Job]:
    return [Job(i, CONFIG, 7 + i, Path(f"{i}"), label) for i in range(n)]


def plain(text: str) -> str:
    """Return what is written without the codes of the terminal."""
    return re.sub(r"\x1b\[[\d;?]*[A-Za-z]", "", text)


class Shown:
    """A display in a terminal, what it writes, and its clock."""

    def __init__(
        self, some: list[Job], width: int = 80, height: int = 50, terminal: bool = True, quiet: bool = False
    ):
        self.text, self.now = io.StringIO(), 0.0
        self.console = Console(file=self.text, width=width, height=height, force_terminal=terminal, markup=False)
        self.display = Display(some, self.console, quiet, lambda: self.now)

    def see(self, *events: Event, seconds: float = 0.0) -> Shown:
        for event in events:
            self.now += seconds
            self.display.on_event(event)
        return self

    @property
    def bars(self) -> list[str]:
        """What stands at the bottom of the terminal now, with ━ for whatever a bar is made of."""
        console = Console(
            file=io.StringIO(), width=self.console.width, height=self.console.height, force_terminal=True
        )
        console.print(self.display._lines())
        lines = plain(console.file.getvalue()).splitlines()
        assert all(len(line) <= self.console.width for line in lines)
        return [re.sub("[━╸╺ ]*━[━╸╺ ]*", " ━ ", line).rstrip() for line in lines]

    @property
    def written(self) -> str:
        """All that was written."""
        return plain(self.text.getvalue())


def test_without_a_terminal_there_is_a_line_per_task():
    shown = Shown(jobs(), terminal=False)
    with shown.display:
        shown.see(*EVENTS)
    assert shown.text.getvalue().splitlines() == LINES


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(terminal):
    shown = Shown(jobs(), terminal=terminal, quiet=True)
    with shown.display:
        shown.see(*EVENTS)
    assert shown.text.getvalue() == ""


@pytest.mark.parametrize("width", [60, 80, 120])
def test_a_terminal_shows_the_lines_and_below_them_a_bar_for_each_run(width):
    shown = Shown(jobs(), width)
    with shown.display:
        shown.see(*EVENTS)
    lines = [line.rstrip() for line in re.split("[\r\n]+", shown.written)]
    assert [line for line in lines if " learned: " in line or " failed: " in line] == LINES
    # The bars are drawn again below each line: the last thing in the terminal is the last state of all runs.
    assert [line.split()[:2] for line in lines[-3:-1]] == [["seed", "7"], ["seed", "8"]]
    assert re.search("2/3 loss 0.25 0:00 0:00 left$", lines[-3])
    assert re.search("2/3 failed +0:00$", lines[-2])


@pytest.mark.parametrize("width", [60, 80, 120])
@pytest.mark.parametrize("terms", [{}, {"penalty": 1e-4, "replay_penalty": 1e-4, "vae_loss": 120.5, "kl": 2.0}])
def test_at_any_width_there_are_one_loss_the_bar_and_the_times(width, terms):
    shown = Shown(jobs(), width)
    shown.see(Event(0, 3, 0, 1, {"task_loss": 1.2345e-5, **terms}, None))
    shown.see(Event(0, 3, 0, 7, {"task_loss": 1.2345e-5, **terms}, None), seconds=60)
    assert shown.bars == ["seed 7 ━ 1/3 loss 1.23e-05 1:00 3:50 left", "seed 8 ━ waiting"]
    shown.now += 3605
    assert shown.bars[0] == "seed 7 ━ 1/3 loss 1.23e-05 1:01:05 0:00 left"


@pytest.mark.parametrize("width", [60, 80])
def test_a_long_name_keeps_its_seed(width):
    shown = Shown(jobs(label="hypernet:beta=0.01,chunk=500,hypernet.hidden=[100,75,50]"), width)
    shown.see(Event(0, 100, 99, 10, {"task_loss": 1.2345e-5}, None))
    assert re.search("…[^ ]*, seed 7 ━ 100/100 loss 1.23e-05 0:00$", shown.bars[0])
    assert re.search(", seed 8 ━ waiting$", shown.bars[1])


def test_runs_that_wait_have_no_clock_and_those_that_ended_stand_still():
    shown = Shown(jobs(4))
    shown.see(*(Event(i, 1, 0, 1, {"task_loss": 0.5}, None) for i in range(3)))
    shown.see(Event(0, 1, 0, 0, {}, [90.0]), Event(1, 0, 0, 0, {}, None, "no."), seconds=30)
    shown.now += 100
    assert shown.bars == [
        "seed 7 ━ 1/1 done     0:30",
        "seed 8 ━ 1/1 failed   1:00",
        "seed 9 ━ 1/1 loss 0.5 2:40",
        "seed 10 ━ waiting",
    ]


def test_errors_of_a_regression_are_not_called_accuracy(tmp_path):
    config = resolve(load_preset("toy"), ["steps=2"])
    job = Job(0, config, 0, new_folder(tmp_path / "run"))
    shown = Shown([job], terminal=False)
    with shown.display:
        execute(job, RunContext(Compute("cpu"), on_event=lambda event: shown.see(event)))
    lines = shown.text.getvalue().splitlines()
    assert len(lines) == 3
    for i, line in enumerate(lines):
        assert re.fullmatch(rf"seed 0  task {i + 1}/3 learned: MSE [\d.]+, average [\d.]+", line)


def test_there_is_no_average_where_only_the_last_task_was_tested():
    shown = Shown(jobs(), terminal=False)
    with shown.display:
        shown.see(Event(0, 3, 0, 0, {}, [90.0, NAN, NAN]), Event(0, 3, 1, 0, {}, [NAN, 80.0, NAN]))
    assert shown.text.getvalue().splitlines()[1] == "seed 7  task 2/3 learned: accuracy 80.0 %"


@pytest.mark.parametrize("width", [60, 80, 120])
def test_of_many_runs_those_under_way_are_shown_and_the_others_are_counted(width):
    shown = Shown(jobs(20), width)
    assert shown.bars == ["20 runs: 20 waiting"]
    shown.see(*(Event(i, 1, 0, 1, {"task_loss": 0.5}, None) for i in range(5)))
    shown.see(Event(0, 1, 0, 0, {}, [90.0]), Event(3, 0, 0, 0, {}, None, "no."))
    assert [bar.split("━")[0] for bar in shown.bars] == [
        "seed 8 ", "seed 9 ", "seed 11 ", "seed 10 ", "20 runs: 3 under way, 1 failed, 15 waiting, 1 done",
    ]  # fmt: skip


@pytest.mark.parametrize("height", [1, 10, 24, 100])
def test_there_are_never_more_bars_than_the_terminal_has_lines(height):
    shown = Shown(jobs(64), height=height)
    shown.see(*(Event(i, 1, 0, 1, {"task_loss": 0.5}, None) for i in range(50)))
    assert len(shown.bars) == max(1, min(MOST_BARS, height - BESIDE)) + 1
    assert shown.bars[-1] == "64 runs: 50 under way, 14 waiting"


@pytest.mark.parametrize("terminal", [True, False])
def test_where_nothing_is_left_to_run_nothing_is_shown(terminal):
    shown = Shown([], terminal=terminal)
    with shown.display:
        pass
    assert shown.text.getvalue() == ""
