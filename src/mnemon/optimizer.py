"""The optimizers that every learner uses."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, ClassVar

import torch
from torch import Tensor

from mnemon.errors import UsageError, check_not_negative, choose

Optimizer = torch.optim.Optimizer


def _without_guards(torchs: type[Optimizer]) -> type[Optimizer]:
    """Return an optimizer of torch's that does the same without the guards of torch's compiler.

    They keep torch.compile out of a step, and import all of the compiler for it: about a second in every process.
    Here no step is compiled.
    """
    step = inspect.unwrap(torchs.step)

    def step_without_gradients(self: Optimizer, closure: Callable[[], float] | None = None) -> Any:
        with torch.set_grad_enabled(self.defaults["differentiable"]):
            return step(self, closure)

    guarded = ("add_param_group", "zero_grad", "state_dict", "load_state_dict")
    own = {name: inspect.unwrap(getattr(torchs, name)) for name in guarded}
    return type(torchs.__name__, (torchs,), {"step": step_without_gradients, **own})


class _InOneCall(Optimizer):
    """A fused Adam without the search for devices and types that torch makes in each step.

    The numbers and the state are the same, bit for bit. Where a step is not the ordinary one, torch takes it.
    """

    fused_step: ClassVar[Callable[..., None]]

    def step(self, closure: Any = None) -> Any:
        """Take one step."""
        groups = self.param_groups
        if closure is not None or not all(_is_ordinary(group, self.state) for group in groups):
            return super().step(closure)
        with torch.no_grad():
            for group in groups:
                moving = [p for p in group["params"] if p.grad is not None]
                if not moving:
                    continue
                states = [self.state[p] for p in moving]
                steps = [state["step"] for state in states]
                torch._foreach_add_(steps, 1)
                self.fused_step(
                    moving,
                    [p.grad for p in moving],
                    [state["exp_avg"] for state in states],
                    [state["exp_avg_sq"] for state in states],
                    [],
                    steps,
                    amsgrad=False,
                    lr=group["lr"],
                    beta1=group["betas"][0],
                    beta2=group["betas"][1],
                    weight_decay=group["weight_decay"],
                    eps=group["eps"],
                    maximize=group["maximize"],
                )
        return None


def _is_ordinary(group: dict[str, Any], state: Mapping[Tensor, Any]) -> bool:
    """Tell whether all that moves is on one device, of one type, and was moved before."""
    moving = [p for p in group["params"] if p.grad is not None]
    kinds = {(p.device, p.dtype) for p in moving}
    plain = group["fused"] and not (group["amsgrad"] or group["differentiable"])
    return bool(plain) and len(kinds) <= 1 and all(state.get(p) for p in moving)


def _in_one_call(torchs: type[Optimizer], fused_step: Callable[..., None]) -> type[Optimizer]:
    return type(torchs.__name__, (_InOneCall, torchs), {"fused_step": staticmethod(fused_step)})


OPTIMIZERS: dict[str, type[Optimizer]] = {
    "adam": _in_one_call(_without_guards(torch.optim.Adam), torch._fused_adam_),
    "adamw": _in_one_call(_without_guards(torch.optim.AdamW), torch._fused_adamw_),
    "sgd": _without_guards(torch.optim.SGD),
    "rmsprop": _without_guards(torch.optim.RMSprop),
}


class Schedule(str, Enum):
    """How the learning rate goes over the steps of a task."""

    CONSTANT = "constant"
    """It stays."""
    STEPS = "steps"
    """It falls at `milestones` to `factors` of itself."""
    COSINE = "cosine"
    """It falls to 0 along half a cosine."""


@dataclass(frozen=True)
class OptimizerConfig:
    """How parameters are optimized. Every task starts with new optimizers, unless the method keeps them.

    Example:
        >>> config = mnemon.OptimizerConfig(name="sgd", lr=0.1, schedule=mnemon.optimizer.Schedule.COSINE)
        >>> optimizer = config.build(nn.Linear(2, 1).parameters())
    """

    name: str = "adam"
    """adam, adamw, sgd or rmsprop."""
    lr: float = 1e-3
    """Learning rate, of the hypernetwork and of the task embedding alike."""
    beta1: float = 0.9
    """Decay of the mean gradient (adam, adamw)."""
    beta2: float = 0.999
    """Decay of the mean squared gradient (adam, adamw)."""
    momentum: float = 0.0
    """Momentum (sgd, rmsprop)."""
    weight_decay: float = 0.0
    """Weight decay, as the optimizer understands it."""
    schedule: Schedule = Schedule.CONSTANT
    """The learning rate over the steps of a task: constant, steps (at milestones) or cosine (to 0)."""
    milestones: tuple[float, ...] = (0.4, 0.6, 0.8, 0.9)
    """Shares of a task's steps after which the rate falls (schedule steps); those of the paper's CIFAR runs."""
    factors: tuple[float, ...] = (0.1, 0.01, 1e-3, 5e-4)
    """What the rate is multiplied by from each milestone on, relative to its start (schedule steps)."""
    warmup: float = 0.0
    """Share of a task's steps in which the rate first rises evenly from 0."""

    def __post_init__(self) -> None:
        choose("optimizer", self.name, OPTIMIZERS)
        if not 0 < self.lr < float("inf"):
            raise UsageError(f"optimizer.lr must be a finite number above 0, not {self.lr}.")
        for name in ("beta1", "beta2", "momentum"):
            if not 0 <= getattr(self, name) < 1:
                raise UsageError(f"optimizer.{name} must be at least 0 and below 1, not {getattr(self, name)}.")
        check_not_negative("optimizer.weight_decay", self.weight_decay)
        if len(self.milestones) != len(self.factors):
            raise UsageError(
                "optimizer.milestones and optimizer.factors must have the same length, not "
                f"{len(self.milestones)} and {len(self.factors)}."
            )
        if list(self.milestones) != sorted(self.milestones) or any(not 0 <= m <= 1 for m in self.milestones):
            raise UsageError(
                f"optimizer.milestones must be increasing shares from 0 to 1, not {list(self.milestones)}."
            )
        for factor in self.factors:
            check_not_negative("optimizer.factors", factor)
        if not 0 <= self.warmup < 1:
            raise UsageError(f"optimizer.warmup must be at least 0 and below 1, not {self.warmup}.")

    @property
    def changes_rate(self) -> bool:
        """Whether the learning rate is not the same in all steps of a task."""
        return self.schedule is not Schedule.CONSTANT or self.warmup > 0

    def factor(self, step: int, steps: int) -> float:
        """Return the factor of the learning rate in a step.

        Args:
            step: The number of the step, counted from 0.
            steps: The steps of the task.

        Example:
            >>> config.factor(step=0, steps=100), config.factor(step=50, steps=100)
            (1.0, 0.5)
        """
        rise = min(1.0, (step + 1) / (self.warmup * steps)) if self.warmup else 1.0
        share = step / steps
        if self.schedule is Schedule.COSINE:
            start = self.warmup
            return rise * 0.5 * (1 + math.cos(math.pi * max(0.0, share - start) / (1 - start)))
        if self.schedule is Schedule.STEPS:
            passed = [
                factor for milestone, factor in zip(self.milestones, self.factors, strict=True) if share >= milestone
            ]
            return rise * (passed[-1] if passed else 1.0)
        return rise

    def build(self, parameters: Iterable[Tensor]) -> torch.optim.Optimizer:
        """Return a new optimizer.

        Args:
            parameters: What it moves.
        """
        options: dict[str, Any] = {"lr": self.lr, "weight_decay": self.weight_decay}
        if self.name in ("adam", "adamw"):
            options["betas"] = (self.beta1, self.beta2)
        else:
            options["momentum"] = self.momentum
        if self.name != "rmsprop":
            options["fused"] = True  # four times faster than the default on a CPU
        return OPTIMIZERS[self.name](parameters, **options)


def descend(optimizer: torch.optim.Optimizer, loss: Tensor) -> None:
    """Take one step down a loss."""
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def forget_gradients(optimizer: torch.optim.Optimizer) -> None:
    """Drop the gradients of what an optimizer moves; `zero_grad` takes as long as a small step of its own."""
    for group in optimizer.param_groups:
        for parameter in group["params"]:
            parameter.grad = None


def scale_rates(optimizer: torch.optim.Optimizer, factor: float) -> None:
    """Set the learning rates of an optimizer to a multiple of those that it started with."""
    for group in optimizer.param_groups:
        group["lr"] = factor * group.setdefault("initial_lr", group["lr"])
