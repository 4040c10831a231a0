"""The cases of `benchmarks.speed`: what is taken in turns with what, and the bars."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import nn

from benchmarks.subjects import continual_steps, subject
from benchmarks.timing import Action, Measured, in_turns
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.hypernet import build_hypernet
from mnemon.hypernet.target import Target
from mnemon.models import TargetConfig, build_network
from mnemon.regularizers import fisher
from mnemon.regularizers.output import Anchors, exact_penalty, plain_penalty

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
        what = {"change": "now / before"}.get(self.of, self.of)
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
    measure: Callable[[], Measured]
    bars: tuple[Bar, ...] = ()


def _step(preset: str, n_tasks: int, task: int, *bars: Bar, settings: Sequence[str] = ()) -> Case:
    def measure() -> Measured:
        made = subject(preset, n_tasks, task, settings)
        return in_turns(made.step, made.plain_step())

    drawn = ", 128 rows drawn" if settings == ROWS else ""
    return Case(f"step of {preset}, task {task}{drawn}", "plain step of the same target", measure, bars)


def _growth(preset: str, n_tasks: int, late: int, early: int, *bars: Bar, settings: Sequence[str] = ()) -> Case:
    def measure() -> Measured:
        return in_turns(*(subject(preset, n_tasks, task, settings).step for task in (late, early)))

    drawn = ", 128 rows drawn" if settings == ROWS else ""
    return Case(f"step of {preset}, task {late}{drawn}", f"task {early}", measure, bars)


def _continual(task: int, *bars: Bar) -> Case:
    what = f"step of ContinualModel, MLP 784-256-10, task {task}"
    return Case(what, "plain step of the module", lambda: in_turns(*continual_steps(task)), bars)


def _penalties(preset: str, n_tasks: int, old: int, *bars: Bar) -> Case:
    what = f"penalty of {preset} over {old} tasks, with gradients: summed weight by weight"
    return Case(what, "by Gram matrices", lambda: in_turns(*penalties(preset, n_tasks, old)), bars)


def penalties(preset: str, n_tasks: int, old: int) -> tuple[Action, Action]:
    """Return plain and exact penalty, with gradients, of a preset's hypernetwork after so many old tasks."""
    config = resolve(load_preset(preset))
    target = Target(build_network(config.target, (1024,), 10 * n_tasks))
    frozen = build_hypernet(config.method.hypernet, target).requires_grad_(False)
    anchors = Anchors(frozen, torch.randn(old, frozen.embedding_size))
    moved = copy.deepcopy(frozen).requires_grad_(True)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(1e-3 * torch.randn_like(parameter))
    parameters, draw = list(moved.parameters()), anchors.everything()
    return (
        lambda: torch.autograd.grad(plain_penalty(moved, anchors, draw), parameters),
        lambda: torch.autograd.grad(exact_penalty(moved, anchors, draw), parameters),
    )


def fishers(n: int = 1000) -> tuple[Action, Action]:
    """Return the Fisher information of split MNIST's network from single examples, and from whole batches."""
    network = build_network(TargetConfig(), (784,), 10)
    inputs, targets = torch.rand(n, 784), torch.randint(0, 10, (n,))

    def likelihood(outputs: torch.Tensor, classes: torch.Tensor) -> torch.Tensor:
        return -nn.functional.cross_entropy(outputs, classes, reduction="sum")

    of_all = network, likelihood, inputs, targets
    return lambda: fisher.one_by_one(*of_all), lambda: fisher.fisher_of_network(*of_all)


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
    "split-digits": _step("split-digits", 5, 5),
    "resnet32": _step("cifar-resnet32", 6, 6),
    "continual-5": _continual(5, Bar("ratio", 3.0)),
    "continual-20": _continual(20, Bar("ratio", 3.0)),
    "penalty-p10": _penalties("permuted-10", 10, 9, Bar("ratio", at_least=15)),
    "penalty-p100": _penalties("permuted-100", 100, 49, Bar("ratio", at_least=5)),
    "fisher": Case(
        "Fisher information, 784-400-400-10: of single examples",
        "of batches",
        lambda: in_turns(*fishers()),
        (Bar("ratio", at_least=20),),
    ),
}
