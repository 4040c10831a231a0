"""Take two things in turns, in CPU time on one thread, and count what one of them computes."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import flop_registry

Action = Callable[[], object]
Quartiles = tuple[float, float, float]

SECONDS = 6.0
"""CPU time of the rounds of a case in one process, about."""
AT_LEAST = 0.05
"""CPU seconds of one reading: what is quicker is repeated."""
ROUNDS = (3, 15)
"""Fewest and most rounds of a case in one process."""
EDGE = 1024
"""Rows and columns of the matrices whose product is taken for the speed of the core: they fit into its caches."""

IN_PLACE: Any = {torch.ops.aten.addmm_: torch.ops.aten.addmm, torch.ops.aten.baddbmm_: torch.ops.aten.baddbmm}
"""Products for which torch has no formula, with those that count the same."""


@dataclass(frozen=True)
class Rounds:
    """What one or several processes have read, round by round."""

    first: list[float]
    second: list[float]
    unit: str = "ms"
    gflop: float | None = None
    """Operations of the first side in matrix products and convolutions, in thousand millions."""
    speed: list[float] | None = None
    """Thousand millions of operations per second in a product of two large matrices."""

    def and_those_of(self, other: Rounds) -> Rounds:
        """Return the rounds of both."""
        speed = [*self.speed, *other.speed] if self.speed is not None and other.speed is not None else None
        return replace(self, first=[*self.first, *other.first], second=[*self.second, *other.second], speed=speed)


@dataclass(frozen=True)
class Measured:
    """What a case came to: the lower quartile, the median and the upper quartile of its rounds."""

    first: Quartiles
    second: Quartiles
    ratio: Quartiles
    """Of the first to the second, within a round."""
    unit: str = "ms"
    gflop: float | None = None
    peak: Quartiles | None = None
    share: Quartiles | None = None
    """Of the core's speed, what the first side reaches, within a round."""


def summary(rounds: Rounds) -> Measured:
    """Return medians and quartiles; ratios are taken within the rounds."""
    ratio = [a / b for a, b in zip(rounds.first, rounds.second, strict=True)]
    found = Measured(quartiles(rounds.first), quartiles(rounds.second), quartiles(ratio), rounds.unit)
    if rounds.speed is None or not rounds.gflop:
        return found
    pairs = zip(rounds.first, rounds.speed, strict=True)
    share = [1000 * rounds.gflop / milliseconds / speed for milliseconds, speed in pairs]
    return replace(found, gflop=rounds.gflop, peak=quartiles(rounds.speed), share=quartiles(share))


def quartiles(values: Sequence[float]) -> Quartiles:
    if len(values) == 1:
        return (values[0],) * 3
    low, middle, high = statistics.quantiles(values, n=4, method="inclusive")
    return low, middle, high


def cpu_seconds(action: Action, repeats: int = 1) -> float:
    start = time.process_time()
    for _ in range(repeats):
        action()
    return (time.process_time() - start) / repeats


def in_turns(first: Action, second: Action) -> Rounds:
    """Take both sides and a product of two matrices in turns, so that a busy machine slows all of them alike."""
    gflop = gflop_of(first)
    actions = (first, second, _product())
    for action in actions:
        action()
    once = [cpu_seconds(action) for action in actions]
    repeats = [max(1, round(AT_LEAST / max(seconds, 1e-6))) for seconds in once]
    whole = sum(n * seconds for n, seconds in zip(repeats, once, strict=True))
    rounds = min(max(round(SECONDS / whole), ROUNDS[0]), ROUNDS[1])
    rows = [[cpu_seconds(a, n) for a, n in zip(actions, repeats, strict=True)] for _ in range(rounds)]
    firsts, seconds, products = ([1000 * row[i] for row in rows] for i in range(3))
    return Rounds(firsts, seconds, "ms", gflop, [2e-6 * EDGE**3 / product for product in products])


def _product() -> Action:
    left, right, out = (torch.randn(EDGE, EDGE) for _ in range(3))
    return lambda: torch.mm(left, right, out=out)


def gflop_of(action: Action) -> float:
    """Count the operations of matrix products and convolutions; what runs in compiled code is not seen."""
    with _Operations() as counted:
        action()
    return counted.total / 1e9


class _Operations(TorchDispatchMode):
    """Adds up the operations of what runs within it, by torch's formulas."""

    # Not torch's own FlopCounterMode: it knows no products in place, and its hooks stop some gradients.
    def __init__(self) -> None:
        super().__init__()
        self.total = 0

    def __torch_dispatch__(self, function: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        out = function(*args, **kwargs)
        formula = flop_registry.get(IN_PLACE.get(function._overloadpacket, function._overloadpacket))
        if formula is not None:
            self.total += formula(*args, **kwargs, out_val=out)
        return out


def peak_memory() -> float:
    """Return the most memory, in MB, that this process ever had in use."""
    # Not getrusage: its peak is handed down from the parent process.
    status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
    return int(status["VmHWM"].split()[0]) / 1024
