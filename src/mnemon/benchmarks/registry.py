"""All benchmarks by name; a new one is a file and a line here, or is registered from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol, TypeVar, cast

from mnemon.benchmarks.permuted import PermutedDigits, PermutedMnist
from mnemon.benchmarks.split import SplitDigits, SplitFashion, SplitMnist
from mnemon.benchmarks.split_cifar import SplitCifar, SplitCifar100
from mnemon.benchmarks.task import TaskStream
from mnemon.benchmarks.toy_regression import ToyRegression
from mnemon.errors import UsageError
from mnemon.registry import Registry

Made = TypeVar("Made", bound=Callable[..., Any])


class Benchmark(Protocol):
    """The settings of a benchmark: a frozen dataclass of plain values that refuses wrong ones.

    Example:
        >>> from mnemon.benchmarks.toy_regression import ToyRegression
        >>> benchmark: mnemon.Benchmark = ToyRegression(n_train=10)
        >>> len(benchmark.build(data=None, seed=0))
        3
    """

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the tasks.

        Args:
            data: The folder with data sets, if one was given.
            seed: The seed of what is random in the tasks.
        """
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
REGISTRY = Registry("benchmark", BENCHMARKS, "benchmark.name")
"""The same table, open to plugins."""


def register_benchmark(name: str) -> Callable[[Made], Made]:
    """Make a benchmark of your own known by a name, beside those that come with mnemon.

    Args:
        name: Letters, digits, - and _; the word that `--set benchmark=` and a preset take.

    Returns:
        A decorator for a frozen dataclass of settings with `build(data, seed)`, or for a function of (data, seed)
        where nothing is to be set. Both return a `TaskStream`; `data` is the folder of `--data`, or None.

    Raises:
        UsageError: If the name is taken, or what is decorated is no benchmark.

    Example:
        >>> @mnemon.register_benchmark("my-digits")
        ... def my_digits(data, seed):
        ...     examples = mnemon.Examples(torch.rand(10, 4), torch.arange(10) % 2)
        ...     task = mnemon.Task("odd or even", examples, examples)
        ...     return mnemon.TaskStream("my-digits", mnemon.TaskKind.CLASSIFICATION, (task,), (4,), 2)
    """

    def add(made: Made) -> Made:
        REGISTRY.add(name, settings_of(made))
        return made

    return add


def settings_of(made: Callable[..., Any]) -> type[Benchmark]:
    """Return the settings of a benchmark; of a function, those that have nothing to set."""
    if not isinstance(made, type):
        if not callable(made):
            raise UsageError(f"A benchmark is a dataclass with build(data, seed), or such a function, not {made!r}.")
        return _of_function(made)
    if not (dataclasses.is_dataclass(made) and callable(getattr(made, "build", None))):
        raise UsageError(f"The benchmark {made.__name__} must be a frozen dataclass with a method build(data, seed).")
    return cast(type[Benchmark], made)


def _of_function(function: Callable[[Path | None, int], TaskStream]) -> type[Benchmark]:
    def build(self: object, data: Path | None, seed: int) -> TaskStream:
        return function(data, seed)

    said = {name: getattr(function, name, "") for name in ("__module__", "__qualname__", "__doc__")}
    made: Any = dataclasses.make_dataclass("Own", [], namespace={**said, "build": build}, frozen=True)
    return cast(type[Benchmark], made)
