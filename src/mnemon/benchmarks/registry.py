"""All benchmarks by name; a new one is a file and a line here."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from mnemon.benchmarks.permuted import PermutedDigits, PermutedMnist
from mnemon.benchmarks.split import SplitDigits, SplitFashion, SplitMnist
from mnemon.benchmarks.split_cifar import SplitCifar, SplitCifar100
from mnemon.benchmarks.task import TaskStream
from mnemon.benchmarks.toy_regression import ToyRegression


class Benchmark(Protocol):
    """The settings of a benchmark: a frozen dataclass of plain values that refuses wrong ones."""

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the tasks, with data sets from the folder `data` if one is named."""
        ...


BENCHMARKS: dict[str, type[Benchmark]] = {
    "toy-regression": ToyRegression,
    "split-digits": SplitDigits,
    "permuted-digits": PermutedDigits,
    "split-mnist": SplitMnist,
    "split-fashion": SplitFashion,
    "permuted-mnist": PermutedMnist,
    "split-cifar": SplitCifar,
    "split-cifar-100": SplitCifar100,
}
