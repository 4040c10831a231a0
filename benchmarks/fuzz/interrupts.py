"""Press Ctrl-C at any line of what a model does: it is as before, or as after, and goes on as it would have.

Once or twice, at any line of mnemon or of any Python code that runs meanwhile: most of it is torch's. A stream that
breaks off keeps what it has learned, so there a model may also be as after any number of batches.
"""

from __future__ import annotations

import copy
import functools
import random
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

import torch
from torch import Tensor

import mnemon
from benchmarks.fuzz.calls import state_of
from benchmarks.fuzz.files import MODELS, net

OURS, ALL = str(Path(mnemon.__file__).parent), ""
"""Beginnings of the paths of the files whose lines count."""
STEPS = 3
PATIENCE = 10.0
"""Seconds until another thread must have had its answer."""
Verb = Callable[[mnemon.ContinualModel], object]


def _data(seed: int) -> tuple[Tensor, Tensor]:
    inputs = torch.rand(24, 4, generator=torch.Generator().manual_seed(seed))
    return inputs, (inputs[:, seed % 4] > 0.5).long()


def learn(model: mnemon.ContinualModel) -> None:
    """Learn a new task."""
    model.learn(_data(2), "two", steps=STEPS, quiet=True)


def relearn(model: mnemon.ContinualModel) -> None:
    """Go on with the first task."""
    model.relearn(_data(3), "zero", steps=STEPS, quiet=True)


class Failing:
    """The cross entropy, which fails when it is asked for the n-th time, if ever."""

    def __init__(self, n: int = -1) -> None:
        self.n = n

    def __call__(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the loss, or fail."""
        self.n -= 1
        if self.n == 0:
            raise ZeroDivisionError
        return torch.nn.functional.cross_entropy(outputs, targets)

    def __repr__(self) -> str:
        return "the loss"


def learn_stream(model: mnemon.ContinualModel, n: int = -1) -> None:
    """Learn from a stream with two tasks in it, the loss of which may fail."""
    batches = [_data(seed) for seed in (2, 6, 10, 14)]
    batches += [(inputs, 1 - labels) for inputs, labels in batches[:3]]
    model.learn_stream(batches, steps=1, recent=2, patience=2, loss=Failing(n))


def forget(model: mnemon.ContinualModel) -> None:
    """Drop the first task."""
    model.forget("zero")


def ask(model: mnemon.ContinualModel) -> None:
    """Ask all that changes nothing."""
    model.predict(_data(0)[0])
    model.evaluate(_data(0), "zero")
    model.network("one")
    model.to("cpu")


VERBS: dict[str, tuple[int, Verb]] = {
    "learn": (6, learn),
    "relearn": (2, relearn),
    "learn_stream": (2, learn_stream),
    "forget": (1, forget),
    "ask": (1, ask),
}
"""What is done, and how often."""


@dataclass(frozen=True)
class Known:
    """A model in a file, and what may come of it."""

    kind: str
    path: Path
    before: Any
    after: dict[str, Any]
    between: dict[str, list[Any]]
    """What else each verb may leave behind."""
    lines: dict[tuple[str, str], int]
    """Lines that each verb runs through, of mnemon and of all."""


def prepare(folder: Path) -> list[Known]:
    """Make a model of each kind, and do each verb once without an interrupt."""
    return [_known(kind, settings, folder / f"{kind}.mnemon") for kind, settings in MODELS.items()]


def _known(kind: str, settings: dict[str, Any], path: Path) -> Known:
    model = mnemon.ContinualModel(net(), **settings)
    for i, task in enumerate(("zero", "one")):
        model.learn(_data(i), task, steps=STEPS, quiet=True)
    model.save(path)
    known = Known(kind, path, state_of(mnemon.load(path, net())), {}, {}, {})
    for name, (_, verb) in VERBS.items():
        for home in (OURS, ALL, OURS, ALL):  # the first time imports run, too
            model = mnemon.load(path, net())
            known.lines[name, home] = interrupted(functools.partial(verb, model), home)
            known.after[name] = state_of(model)
        known.between[name] = _broken_off(path) if verb is learn_stream else []
    return known


def _broken_off(path: Path) -> list[Any]:
    """Return the states in which a stream can break off: wherever its loss may fail."""
    found: list[Any] = []
    for n in range(1, 1000):
        model = mnemon.load(path, net())
        try:
            learn_stream(model, n)
        except ZeroDivisionError:
            found.append(state_of(model))
        except mnemon.UsageError:  # when the module was tried
            continue
        else:
            return found
    raise AssertionError("the stream does not end")


def case(known: list[Known], number: int) -> str:
    """Interrupt a verb, see that nothing has happened, then let it happen."""
    draw = random.Random(number)
    name = draw.choice([name for name, (times, _) in VERBS.items() for _ in range(times)])
    one, home, verb = draw.choice(known), draw.choice((OURS, ALL)), VERBS[name][1]
    first = draw.randrange(one.lines[name, home])
    moments = (first, first + draw.randint(1, 60)) if draw.random() < 0.3 else (first,)
    model, numbers, ending = mnemon.load(one.path, net()), torch.random.get_rng_state(), "interrupted"
    try:
        interrupted(functools.partial(verb, model), home, *moments)
        ending = "ended before"
    except KeyboardInterrupt:
        pass
    try:
        _check(model, one, name, numbers)
    except AssertionError as error:
        whose = "all" if home == ALL else "our"
        raise AssertionError(f"{name} ({one.kind}) at {moments} of {whose} lines: {error}") from error
    return f"{name} {ending} ({one.kind})"


def _check(model: mnemon.ContinualModel, one: Known, name: str, numbers: Tensor) -> None:
    found, verb = state_of(model), VERBS[name][1]
    assert found in (one.before, one.after[name], *one.between[name]), "the model is neither as before nor as after"
    assert torch.is_grad_enabled(), "gradients are left off"
    assert torch.equal(torch.random.get_rng_state(), numbers), "the user's random numbers are others"
    copied = copy.deepcopy(model)
    _check_other_thread(model)
    loaded = mnemon.load(model.save(one.path.with_name("again")), net())
    if found == one.before:
        for each in (model, copied, loaded):
            verb(each)
            assert state_of(each) == one.after[name], "it learns otherwise afterwards"
    else:
        for each in (model, copied, loaded):
            each.learn(_data(4), "later", steps=STEPS, quiet=True)
        assert state_of(model)[0] == state_of(copied)[0] == state_of(loaded)[0], "it learns otherwise than its file"


def _check_other_thread(model: mnemon.ContinualModel) -> None:
    """See that another thread is not kept from the model, nor from random numbers."""
    answers: list[Any] = []
    task = next(name for name in model.tasks if name in ("zero", "one"))
    thread = threading.Thread(target=lambda: answers.append(model.predict(_data(0)[0], task)), daemon=True)
    thread.start()
    thread.join(PATIENCE)
    assert answers, "other threads wait for ever"


def interrupted(work: Callable[[], object], home: str, *moments: int) -> int:
    """Do a work, and raise the signal of Ctrl-C at these lines, counted from 0; return how many lines it has.

    Lines count of files whose path begins with `home`. No context: what ends one might be interrupted, too.
    """
    n_lines, left = 0, sorted(moments)

    def trace(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal n_lines
        if not frame.f_code.co_filename.startswith(home) or frame.f_code.co_filename == __file__:
            return None
        if event == "line":
            n_lines += 1
            if left and n_lines > left[0]:
                left.pop(0)
                sys.setprofile(_tracing_again(trace))
                signal.raise_signal(signal.SIGINT)
        return trace

    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    sys.settrace(trace)
    try:
        work()
    finally:
        sys.settrace(None)
        sys.setprofile(None)
        signal.signal(signal.SIGINT, before)
    return n_lines


def _tracing_again(trace: Any) -> Any:
    """Return what sees to it that lines count again: Python ends a trace in which something was raised."""

    def profile(frame: FrameType, event: str, argument: Any) -> None:
        sys.setprofile(None)
        sys.settrace(trace)
        above: FrameType | None = frame
        while above is not None:
            if above.f_code.co_filename != __file__:
                above.f_trace = trace
            above = above.f_back

    return profile
