"""What is shown while runs go on."""

from __future__ import annotations

import io
import math
from pathlib import Path

import pytest
from rich.console import Console

from mnemon.experiments.preset import load_preset
from mnemon.experiments.progress import Display
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import Event, Job

CONFIG = resolve(load_preset("split-digits"), ["steps=10"])
JOBS = [Job(0, CONFIG, 7, Path("a")), Job(1, CONFIG, 8, Path("b"))]
EVENTS = [
    Event(0, 3, 0, 4, {"task_loss": 0.5}, None),
    Event(0, 3, 0, 0, {}, [90.0, math.nan, math.nan]),
    Event(1, 3, 1, 0, {}, [80.0, 100.0, 10.0]),
    Event(0, 3, 1, 4, {"task_loss": 0.25, "penalty": 1e-4}, None),
    Event(1, 0, 0, 0, {}, None, "task_loss became nan in [task] 3."),
]


def shown(terminal: bool, quiet: bool, width: int = 80) -> str:
    text = io.StringIO()
    console = Console(file=text, width=width, force_terminal=terminal, markup=False)
    with Display(JOBS, console, quiet) as display:
        for event in EVENTS:
            display.on_event(event)
    return text.getvalue()


def test_without_a_terminal_there_is_a_line_per_task():
    assert shown(terminal=False, quiet=False).splitlines() == [
        "seed 7  task 1/3 learned: 90 on it, 90 on average so far",
        "seed 8  task 2/3 learned: 100 on it, 90 on average so far",
        "seed 8  failed: task_loss became nan in [task] 3.",
    ]


@pytest.mark.parametrize("terminal", [True, False])
def test_quiet_shows_nothing(terminal):
    assert not shown(terminal, quiet=True).strip("\x1b[?25lh\n")


@pytest.mark.parametrize("width", [80, 120])
def test_a_terminal_shows_a_bar_per_run(width):
    text = shown(terminal=True, quiet=False, width=width)
    for part in ("seed 7", "task 2/3, step 4/10", "penalty 0.0001", "seed 8", "failed"):
        assert part in text
