r"""Where the penalty is measured: $\Theta_h + \Delta\Theta_h$, the step that the task gradient alone would cause.

The step is taken by a twin of the optimizer: of the same class, with the same settings and state, on copies of
the parameters. So it is the step that any torch optimizer really takes, with momentum, weight decay and all, and
the real state stays untouched.
"""

from __future__ import annotations

import copy
import functools
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Sequence
from enum import Enum
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call

from mnemon.errors import first_line

Gradients = Sequence[Tensor | None]
Penalty = Callable[[Any], tuple[Tensor, Gradients]]
"""A number that depends on a module: its value, and its gradients of the module's parameters, then of other tensors.

None stands for a gradient that is 0, or that the penalty has added where it belongs by itself.
"""


def by_autograd(value_of: Callable[[Any], Tensor], others: Sequence[Tensor] = ()) -> Penalty:
    """Return a penalty whose gradients autograd finds, those of other tensors included."""

    def penalty(module: Any) -> tuple[Tensor, Gradients]:
        value = value_of(module)
        return value.detach(), torch.autograd.grad(value, [*module.parameters(), *others], allow_unused=True)

    return penalty


class LookaheadMode(str, Enum):
    """Where the drift of the generated weights is measured."""

    CONSTANT = "constant"
    """At the parameters after the step that the task gradient alone would cause (the paper)."""
    COMPILED = "compiled"
    """As constant, within rounding: the step of Adam is compiled (needs a C++ compiler; some seconds once)."""
    OFF = "off"
    """At the present parameters."""
    DIFFERENTIATED = "differentiated"
    """As constant, and the gradient also flows back through that step (second order, slower)."""


class AbstractLookahead(ABC):
    """Adds the gradient of a penalty to the task gradient, before the one real step of the optimizer."""

    second_order = False
    """Whether the task gradients have to be taken with `create_graph`."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer):
        self.module, self.optimizer = module, optimizer
        self.real: list[Tensor] = list(module.parameters())

    def add_gradient(
        self, penalty: Penalty, task_gradients: Sequence[Tensor], others: Sequence[Tensor] = ()
    ) -> Tensor:
        """Add the penalty's gradient to `.grad` of the module's parameters and set that of others; return its value.

        `.grad` holds the task gradient when this is called.
        """
        value, gradients = self.measure(penalty, task_gradients)
        for parameter, gradient in zip(self.real, gradients, strict=False):
            if gradient is not None and parameter.grad is not None:
                parameter.grad.add_(gradient)
        for tensor, gradient in zip(others, gradients[len(self.real) :], strict=True):
            tensor.grad = gradient
        return value

    @abstractmethod
    def measure(self, penalty: Penalty, task_gradients: Sequence[Tensor]) -> tuple[Tensor, Gradients]:
        """Return the penalty and its gradients of the real parameters, then of the others."""


class NoLookahead(AbstractLookahead):
    """The penalty at the present parameters."""

    def measure(self, penalty: Penalty, task_gradients: Sequence[Tensor]) -> tuple[Tensor, Gradients]:
        """Compute the penalty at the present parameters."""
        return penalty(self.module)


class ConstantLookahead(AbstractLookahead):
    """The penalty after the step, with the step taken as a constant."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer):
        super().__init__(module, optimizer)
        self.moved = copy.deepcopy(module)
        self.copies: list[Tensor] = list(self.moved.parameters())
        self.twin = _twin(optimizer, self.real, self.copies)

    def step(self) -> nn.Module:
        """Return the copy of the module, after the step that the present `.grad` would cause."""
        sources, copies = list(self.real), list(self.copies)
        for real, moved in zip(self.real, self.copies, strict=True):
            moved.grad = real.grad
            for value, copied in _state_pairs(self.optimizer.state[real], self.twin.state[moved]):
                sources.append(value)
                copies.append(copied)
        with torch.no_grad():
            torch._foreach_copy_(copies, sources)
        for mine, other in zip(self.twin.param_groups, self.optimizer.param_groups, strict=True):
            mine.update({key: value for key, value in other.items() if key != "params"})
        self.twin.step()
        for moved in self.copies:
            moved.grad = None
        return self.moved

    def measure(self, penalty: Penalty, task_gradients: Sequence[Tensor]) -> tuple[Tensor, Gradients]:
        """Compute the penalty at the moved copy."""
        return penalty(self.step())


class CompiledLookahead(ConstantLookahead):
    """As constant, with the step of Adam compiled into one pass over memory, if a compiler is there."""

    def __init__(self, module: nn.Module, optimizer: torch.optim.Optimizer):
        super().__init__(module, optimizer)
        self._works = isinstance(optimizer, torch.optim.Adam | torch.optim.AdamW)

    def step(self) -> nn.Module:
        """Return the copy of the module, after the step that the present `.grad` would cause."""
        if not self._works or any(not self.optimizer.state.get(p) for p in self.real):
            return super().step()
        try:
            for group in self.optimizer.param_groups:
                self._move(group)
        except Exception as error:  # what a compiler can fail with is not one kind of error
            self._works = False
            reason = f"{type(error).__name__}: {first_line(error)}"
            warnings.warn(f"The lookahead runs uncompiled, at its usual speed: {reason}", stacklevel=2)
            return super().step()
        return self.moved

    @torch.no_grad()
    def _move(self, group: dict[str, Any]) -> None:
        copy_of = dict(zip(map(id, self.real), self.copies, strict=True))
        beta1, beta2 = group["betas"]
        decoupled = isinstance(self.optimizer, torch.optim.AdamW)
        for real in group["params"]:
            state = self.optimizer.state[real]
            step = float(state["step"]) + 1
            # What differs from step to step comes as tensors: a number would be compiled in.
            factors = torch.tensor([group["lr"] / (1 - beta1**step), (1 - beta2**step) ** 0.5, group["lr"]])
            decay = group["weight_decay"]
            tensors = (real, real.grad, state["exp_avg"], state["exp_avg_sq"], copy_of[id(real)])
            _compile_step()(*tensors, factors.to(real), beta1, beta2, group["eps"], decay, decoupled)


@functools.cache
def _compile_step() -> Callable[..., None]:
    return torch.compile(_adam_step, dynamic=False)


def _adam_step(
    real: Tensor,
    gradient: Tensor,
    mean: Tensor,
    square: Tensor,
    moved: Tensor,
    factors: Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    decay: float,
    decoupled: bool,
) -> None:
    """Write the parameters after a step of Adam to `moved`; nothing else changes."""
    rate, correction, lr = factors.unbind()
    if decay and not decoupled:
        gradient = gradient + decay * real
    start = real * (1 - lr * decay) if decay and decoupled else real
    new_mean = mean + (1 - beta1) * (gradient - mean)
    new_square = beta2 * square + (1 - beta2) * gradient * gradient
    moved.copy_(start - rate * new_mean / (new_square.sqrt() / correction + eps))


class DifferentiatedLookahead(AbstractLookahead):
    """The penalty after the step, as a function of the parameters from which the step starts."""

    second_order = True

    def measure(self, penalty: Penalty, task_gradients: Sequence[Tensor]) -> tuple[Tensor, Gradients]:
        """Compute the penalty at the moved parameters, and propagate its gradient back through the step."""
        moved = [p.clone() for p in self.real]
        twin = _twin(self.optimizer, self.real, moved)
        twin.defaults["differentiable"] = True
        for group in twin.param_groups:
            group.update({"differentiable": True, "foreach": False, "fused": None})
        for tensor, gradient in zip(moved, task_gradients, strict=True):
            # Where the square of the gradient is 0 the root in Adam has no derivative: nothing flows back there.
            negligible = gradient.abs() < torch.finfo(gradient.dtype).tiny ** 0.5
            tensor.grad = torch.where(negligible, gradient.detach(), gradient)
        twin.step()
        names = [f"module.{name}" for name, _ in self.module.named_parameters()]
        at_moved = {name: p.detach().requires_grad_() for name, p in zip(names, moved, strict=True)}
        value, gradients = functional_call(_Apply(self.module), at_moved, (penalty,))
        pairs = [(p, g) for p, g in zip(moved, gradients, strict=False) if g is not None]
        outputs, through = ([*column] for column in zip(*pairs, strict=True))
        back = torch.autograd.grad(outputs, self.real, through, allow_unused=True)
        return value, [*back, *gradients[len(moved) :]]


LOOKAHEADS: dict[LookaheadMode, type[AbstractLookahead]] = {
    LookaheadMode.CONSTANT: ConstantLookahead,
    LookaheadMode.COMPILED: CompiledLookahead,
    LookaheadMode.OFF: NoLookahead,
    LookaheadMode.DIFFERENTIATED: DifferentiatedLookahead,
}


class _Apply(nn.Module):
    """Lets `functional_call` swap a module's parameters while any function of the module runs."""

    def __init__(self, module: nn.Module):
        super().__init__()
        self.module = module

    def forward(self, function: Penalty) -> tuple[Tensor, Gradients]:
        return function(self.module)


def _twin(
    optimizer: torch.optim.Optimizer, real: Sequence[Tensor], copies: Sequence[Tensor]
) -> torch.optim.Optimizer:
    memo: dict[int, Any] = {id(r): c for r, c in zip(real, copies, strict=True)}
    return copy.deepcopy(optimizer, memo)


def _state_pairs(source: dict[str, Any], to: dict[str, Any]) -> Iterator[tuple[Tensor, Tensor]]:
    """Give the tensors of a state with those to copy them to; what is no tensor, or new, is copied here."""
    if not source:
        to.clear()
    for key, value in source.items():
        if isinstance(value, Tensor) and isinstance(to.get(key), Tensor):
            yield value, to[key]
        else:
            to[key] = value.clone() if isinstance(value, Tensor) else value
