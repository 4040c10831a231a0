"""Three polynomials of increasing degree, each seen on a stretch of its own: the paper's smallest problem."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import torch
from torch import Tensor

from mnemon.benchmarks.sources import check_named_folder
from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.errors import UsageError
from mnemon.seeding import generator


@dataclass(frozen=True)
class Curve:
    """A function and the stretch from which its inputs are drawn."""

    name: str
    function: Callable[[Tensor], Tensor]
    low: float
    high: float


CURVES = (
    Curve("x+3", lambda x: x + 3, -4, -2),
    Curve("2x^2-1", lambda x: 2 * x**2 - 1, -1, 1),
    Curve("(x-3)^3", lambda x: (x - 3) ** 3, 2, 4),
)


def toy_regression(seed: int, n_train: int = 100, n_test: int = 100, noise: float = 0.05) -> TaskStream:
    r"""Return the three tasks, to learn from noisy samples and to be tested on the curve itself.

    $$y = g_t(x) + \epsilon, \; x \sim \mathcal{U}(\mathcal{X}_t), \; \epsilon \sim \mathcal{N}(0, \sigma^2)$$

    von Oswald et al. (2020), appendix, nonlinear regression toy problem. Test inputs are evenly spaced.
    """
    check_toy_regression(n_train, n_test, noise)
    tasks = (
        Task(
            name=curve.name,
            train=noisy_samples(curve, n_train, noise, generator(seed, "toy", i)),
            test=even_points(curve, n_test),
        )
        for i, curve in enumerate(CURVES)
    )
    return TaskStream("toy-regression", TaskKind.REGRESSION, tuple(tasks), input_shape=(1,), outputs_per_task=1)


def even_points(curve: Curve, n: int) -> Examples:
    """Return points on the curve from end to end."""
    x = torch.linspace(curve.low, curve.high, n, dtype=torch.float64)
    return examples(x, curve.function(x))


def noisy_samples(curve: Curve, n: int, noise: float, random: torch.Generator) -> Examples:
    """Draw inputs, then the noise on their targets."""
    x = curve.low + (curve.high - curve.low) * torch.rand(n, generator=random, dtype=torch.float64)
    return examples(x, curve.function(x) + noise * torch.randn(n, generator=random, dtype=torch.float64))


def examples(x: Tensor, y: Tensor) -> Examples:
    """Return columns of the default type; they come as doubles, so that a seed means the same in each."""
    return Examples(x[:, None].to(torch.get_default_dtype()), y[:, None].to(torch.get_default_dtype()))


def check_toy_regression(n_train: int, n_test: int, noise: float) -> None:
    """Refuse settings that make no data."""
    if n_train < 1:
        raise UsageError(f"n_train is {n_train}; it must be at least 1.")
    if n_test < 1:
        raise UsageError(f"n_test is {n_test}; it must be at least 1.")
    if not 0 <= noise < math.inf:
        raise UsageError(f"noise is {noise}; it must be a finite number of at least 0.")


@dataclass(frozen=True)
class ToyRegression:
    """Three polynomials learned from noisy samples; nothing to fetch."""

    n_train: int = 100
    """Noisy samples to learn each polynomial from."""
    n_test: int = 100
    """Evenly spaced points, without noise, to test each polynomial on."""
    noise: float = 0.05
    """Standard deviation of the noise on the training targets."""

    def __post_init__(self) -> None:
        check_toy_regression(self.n_train, self.n_test, self.noise)

    def build(self, data: Path | None, seed: int) -> TaskStream:
        """Return the stream that this seed draws; the data folder is not needed, only checked."""
        check_named_folder(data)
        return toy_regression(seed, self.n_train, self.n_test, self.noise)
