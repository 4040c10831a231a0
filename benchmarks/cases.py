"""The cases of `benchmarks.speed`: what is taken in turns with what, and the bars."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.commands import one_after_the_other_and_side_by_side, peaks, start_and_import
from benchmarks.penalties import chosen_and_better, plain_and_exact
from benchmarks.subjects import answers, continual_steps, fishers, runs, subject, tests
from benchmarks.timing import Action, Measured, Rounds, in_turns

ROWS = ("method.sample=rows", "method.sample_size=128")
"""A penalty on rows that are drawn in every step."""


@dataclass(frozen=True)
class Bar:
    """What a number should be."""

    of: str
    """ratio (of first to second), first, or change (of the ratio since the version before)."""
    at_most: float = math.inf
    at_least: float = -math.inf

    @property
    def text(self) -> str:
        what = "now / before" if self.of == "change" else self.of
        return f"{what} at most {self.at_most:g}" if self.at_most < math.inf else f"{what} at least {self.at_least:g}"

    def met(self, now: Measured, before: Measured | None) -> bool | None:
        """Tell whether it is met; None where there is nothing to compare with."""
        if self.of == "change" and before is None:
            return None
        change = now.ratio[1] / before.ratio[1] if before is not None else math.nan
        value = {"ratio": now.ratio[1], "first": now.first[1], "change": change}[self.of]
        return self.at_least <= value <= self.at_most


@dataclass(frozen=True)
class Case:
    """Two sides, measured in turns."""

    first: str
    second: str
    measure: Callable[[], Rounds]
    bars: tuple[Bar, ...] = ()
    processes: int = 3
    """Processes in which it is measured, one after another."""


def _pair(first: str, second: str, make: Callable[[], tuple[Action, Action]], *bars: Bar) -> Case:
    return Case(first, second, lambda: in_turns(*make()), bars)


def _step(preset: str, n_tasks: int, task: int, *bars: Bar, settings: Sequence[str] = ()) -> Case:
    def make() -> tuple[Action, Action]:
        made = subject(preset, n_tasks, task, settings)
        return made.step, made.plain_step()

    return _pair(_of_step(preset, task, settings), "plain step of the same target", make, *bars)


def _growth(preset: str, n_tasks: int, late: int, early: int, *bars: Bar) -> Case:
    def make() -> tuple[Action, Action]:
        return subject(preset, n_tasks, late).step, subject(preset, n_tasks, early).step

    return _pair(_of_step(preset, late, ()), f"task {early}", make, *bars)


def _of_step(preset: str, task: int, settings: Sequence[str]) -> str:
    return f"step of {preset}, task {task}{', 128 rows drawn' if settings == ROWS else ''}"


def _continual(task: int, *bars: Bar) -> Case:
    what = f"step of ContinualModel, MLP 784-256-10, task {task}"
    return _pair(what, "plain step of the module", lambda: continual_steps(task), *bars)


def _test(preset: str, n_tasks: int, task: int, n: int, at_once: int) -> Case:
    what = f"test of {preset}, task {task}, {n:,} inputs"
    second = f"plain target, {at_once:,} inputs at once"
    return _pair(what, second, lambda: tests(subject(preset, n_tasks, task, n_test=n), at_once))


def _memory(preset: str, n_tasks: int, late: int, early: int, *bars: Bar, settings: Sequence[str] = ()) -> Case:
    what = f"peak memory, {_of_step(preset, late, settings)}"
    return Case(what, f"task {early}", lambda: peaks(preset, n_tasks, (late, early), settings), bars, processes=1)


def _penalty(preset: str, n_tasks: int, old: int, *bars: Bar) -> Case:
    what = f"penalty of {preset} over {old} tasks, with gradients: summed weight by weight"
    return _pair(what, "by Gram matrices", lambda: plain_and_exact(preset, n_tasks, old), *bars)


def _choice(width: int, chunk: int) -> Case:
    what = f"exact penalty, width {width}, chunk {chunk}, five numbers of rows: the way that is chosen"
    return Case(what, "the better one", lambda: chosen_and_better(width, chunk), (Bar("ratio", 1.1),), processes=1)


CASES: dict[str, Case] = {
    "split-mnist-5": _step("split-mnist", 5, 5, Bar("ratio", 2.0)),
    "p10-2": _step("permuted-10", 10, 2),
    "p10-10": _step("permuted-10", 10, 10, Bar("ratio", 2.2)),
    "p10-growth": _growth("permuted-10", 10, 10, 2, Bar("ratio", 1.05)),
    "p100-1": _step("permuted-100", 100, 1),
    "p100-2": _step("permuted-100", 100, 2),
    "p100-50": _step("permuted-100", 100, 50, Bar("change", 0.6)),
    "p100-100": _step("permuted-100", 100, 100),
    "p100-growth": _growth("permuted-100", 100, 100, 50, Bar("ratio", 2.0)),
    "p100-rows-2": _step("permuted-100", 100, 2, Bar("ratio", 5.0), settings=ROWS),
    "p100-rows-50": _step("permuted-100", 100, 50, Bar("ratio", 5.0), settings=ROWS),
    "p100-rows-100": _step("permuted-100", 100, 100, Bar("ratio", 5.0), settings=ROWS),
    "toy": _step("toy", 3, 3, Bar("ratio", 3.0)),
    "toy-run": _pair(
        "run of toy, 600 of its 12,000 steps, with tests",
        "as many plain steps of the target",
        lambda: runs("toy", 200),
        Bar("first", 900),
    ),
    "split-digits": _step("split-digits", 5, 5),
    "resnet32": _step("cifar-resnet32", 6, 6),
    "continual-5": _continual(5, Bar("ratio", 3.0)),
    "continual-20": _continual(20, Bar("ratio", 3.0)),
    "test-split-mnist": _test("split-mnist", 5, 5, 10_000, 1000),
    "test-p10": _test("permuted-10", 10, 10, 10_000, 1000),
    "test-p100": _test("permuted-100", 100, 2, 10_000, 1000),
    "test-resnet32": _test("cifar-resnet32", 6, 6, 500, 50),
    "entropy": _pair(
        "tasks of 10,000 inputs inferred by entropy, permuted-10, 10 tasks",
        "answers of a task that is told",
        lambda: answers("permuted-10-cl3-hnet-ent", 10),
        Bar("first", 20_000),
    ),
    "penalty-p10": _penalty("permuted-10", 10, 9, Bar("ratio", at_least=15)),
    "penalty-p100": _penalty("permuted-100", 100, 49, Bar("ratio", at_least=5)),
    "choice-25": _choice(25, 78000),
    "choice-350": _choice(350, 7500),
    "fisher": _pair(
        "Fisher information, 784-400-400-10: of single examples", "of batches", fishers, Bar("ratio", at_least=20)
    ),
    "memory-p10": _memory("permuted-10", 10, 10, 2, Bar("ratio", 1.05)),
    "memory-p100": _memory("permuted-100", 100, 100, 2, Bar("ratio", 1.2)),
    "memory-p100-rows": _memory("permuted-100", 100, 100, 2, Bar("ratio", 1.2), settings=ROWS),
    "start": Case(
        "mnemon run, until its first step", "import torch", start_and_import, (Bar("first", 3.0),), processes=1
    ),
    "two-seeds": Case(
        "two seeds one after the other, wall time (on an idle machine)",
        "on two cores",
        one_after_the_other_and_side_by_side,
        (Bar("ratio", at_least=1.9),),
        processes=1,
    ),
}
