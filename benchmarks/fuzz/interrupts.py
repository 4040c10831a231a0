"""Press Ctrl-C at any line of a learning, once or twice: the model is as before, and then learns as it would have."""

from __future__ import annotations

import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import mnemon
from benchmarks.fuzz.calls import state_of
from benchmarks.fuzz.files import net

HOME = str(Path(mnemon.__file__).parent)
STEPS = 3
KINDS: dict[str, dict[str, Any]] = {
    "full": {},
    "adapters": {"adapters": mnemon.LoRA("last", rank=2)},
    "densities": {"recognise": "density"},
}


def _data(seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    inputs = torch.rand(24, 4, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs[:, seed % 4] > 0.5).long()


def learn(model: mnemon.ContinualModel) -> None:
    """Learn a new task."""
    model.learn(_data(2), "two", steps=STEPS, quiet=True)


def relearn(model: mnemon.ContinualModel) -> None:
    """Go on with the first task."""
    model.relearn(_data(3), "zero", steps=STEPS, quiet=True)


def forget(model: mnemon.ContinualModel) -> None:
    """Drop the first task."""
    model.forget("zero")


VERBS: tuple[Callable[[mnemon.ContinualModel], None], ...] = (learn, learn, relearn, forget)


@dataclass(frozen=True)
class Known:
    """A model in a file, and what comes of it when nothing interrupts."""

    path: Path
    before: Any
    after: dict[str, Any]
    lines: dict[str, int]
    """Lines of mnemon that each verb runs through."""


def prepare(folder: Path) -> list[Known]:
    """Make a model of each kind, and do each verb once without an interrupt."""
    found = []
    for name, settings in KINDS.items():
        model = mnemon.ContinualModel(net(), **settings)
        for i, task in enumerate(("zero", "one")):
            model.learn(_data(i), task, steps=STEPS, quiet=True)
        path = model.save(folder / f"{name}.mnemon")
        after, lines = {}, {}
        for verb in VERBS:
            model = mnemon.load(path, net())
            before = state_of(model)
            with interrupted() as counted:
                verb(model)
            after[verb.__name__], lines[verb.__name__] = state_of(model), counted[0]
        found.append(Known(path, before, after, lines))
    return found


def case(known: list[Known], number: int) -> str:
    """Interrupt a verb, see that nothing has happened, then let it happen."""
    draw = random.Random(number)
    one, verb = draw.choice(known), draw.choice(VERBS)
    first = draw.randrange(one.lines[verb.__name__])
    moments = (first, first + draw.randint(1, 60)) if draw.random() < 0.3 else (first,)
    model = mnemon.load(one.path, net())
    try:
        with interrupted(*moments):
            verb(model)
        ending = "it ended before"
    except KeyboardInterrupt:
        ending = f"{verb.__name__} interrupted"
    found, after = state_of(model), one.after[verb.__name__]
    assert found in (one.before, after), f"{verb.__name__} at {moments}: the model is neither as before nor as after"
    if found == one.before:
        verb(model)
        assert state_of(model) == after, f"{verb.__name__} at {moments}: it learns otherwise afterwards"
    model.predict(_data(0)[0])
    assert mnemon.load(model.save(one.path.with_name("again")), net()).tasks == model.tasks
    return ending


@contextmanager
def interrupted(*moments: int) -> Iterator[list[int]]:
    """Raise the signal of Ctrl-C at these lines of mnemon, counted from 0; give the number of lines so far."""
    lines, left = [0], sorted(moments)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        if not frame.f_code.co_filename.startswith(HOME):
            return None
        if event == "line":
            lines[0] += 1
            if left and lines[0] > left[0]:
                left.pop(0)
                _press(trace)
        return trace

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(trace)
    try:
        yield lines
    finally:
        sys.settrace(None)
        signal.signal(signal.SIGINT, before)


def _press(trace: Any) -> None:
    """Raise the signal; Python takes the trace away from what raises in it, so it is set again."""
    try:
        signal.raise_signal(signal.SIGINT)
    finally:
        sys.settrace(trace)
