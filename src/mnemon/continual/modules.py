"""Check the user's module, and choose which of its parameters differ from task to task."""

from __future__ import annotations

import copy
import fnmatch
from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.continual.adapters import LoRA, adapt
from mnemon.continual.data import Inputs
from mnemon.errors import UsageError, first_line, join_some, suggest
from mnemon.hypernet.target import Target

Form = dict[str, tuple[tuple[int, ...], str]]
"""Shape and type of all parameters and buffers of a module by name."""


def prepare(module: nn.Module, patterns: Sequence[str], adapters: LoRA | None) -> tuple[nn.Module, list[str]]:
    """Return a copy of the module and the names of the parameters that are generated."""
    check(module)
    module = copy_module(module)
    if adapters is not None:
        if tuple(patterns) != ("*",):
            raise UsageError("With adapters nothing else is generated: leave out generate.")
        return module, adapt(module, adapters)
    return module, _choose_generated(module, patterns)


def check(module: Any) -> None:
    """Refuse an object that is not a module, and a module without initialised parameters."""
    if not isinstance(module, nn.Module):
        raise UsageError(f"ContinualModel takes an nn.Module, not {type(module).__name__}.")
    lazy = (nn.parameter.UninitializedParameter, nn.parameter.UninitializedBuffer)
    if any(isinstance(tensor, lazy) for tensor in (*module.parameters(), *module.buffers())):
        raise UsageError("The module has lazy parameters: run it on an example first.")
    if isinstance(module, torch.jit.ScriptModule):
        raise UsageError("A scripted module cannot use generated weights: give the original module.")
    if any(parameter.is_meta for parameter in module.parameters()):
        raise UsageError("The module has no values yet (it is on the device 'meta'): load its weights first.")


def copy_module(module: nn.Module) -> nn.Module:
    """Return a copy of a module."""
    try:
        return copy.deepcopy(module)
    except Exception as error:
        raise UsageError(f"{type(module).__name__} cannot be copied: {first_line(error)}") from error


def _choose_generated(module: nn.Module, patterns: Sequence[str]) -> list[str]:
    # A tied parameter has several names, any of which may be meant; it is generated under the first.
    parameters = {name: p for name, p in module.named_parameters(remove_duplicate=False) if p.numel()}
    if not parameters:
        raise UsageError(f"{type(module).__name__} has no parameters: there is nothing to learn.")
    for pattern in patterns or ("",):
        if not any(fnmatch.fnmatchcase(name, pattern) for name in parameters):
            raise UsageError(
                f"No parameter of {type(module).__name__} matches '{pattern}'.{suggest(pattern, parameters)} "
                f"It has: {join_some(parameters)}."
            )
    meant = {id(p) for name, p in parameters.items() if any(fnmatch.fnmatchcase(name, each) for each in patterns)}
    names = [name for name, parameter in module.named_parameters() if id(parameter) in meant]
    free = [name for name in names if parameters[name].requires_grad]
    if not free:
        raise UsageError("All parameters that could be generated are frozen (requires_grad is False).")
    if strange := [name for name in free if parameters[name].is_complex()]:
        raise UsageError(
            f"'{strange[0]}' holds complex numbers, which cannot be generated: leave it out or freeze it."
        )
    return free


def form_of(module: nn.Module) -> Form:
    """Return shape and type of all tensors of a module."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: (tuple(t.shape), str(t.dtype).removeprefix("torch.")) for name, t in tensors.items()}


def float_type(module: nn.Module) -> torch.dtype | None:
    """Return the type of a module's floats; None if it has several."""
    found = {parameter.dtype for parameter in module.parameters() if parameter.is_floating_point()}
    return found.pop() if len(found) == 1 else None


@torch.no_grad()
def check_functional(target: Target, inputs: Inputs, reseed: Callable[[], None]) -> None:
    """Refuse a module that does not use the generated weights."""
    module, name = copy_module(target.module).eval(), type(target.module).__name__
    target.eval()
    own = target.own_weights()
    moved = own * 1.1 + 0.01
    parameters = dict(module.named_parameters())
    found, wanted = [], []
    for weights in (own, moved):
        for slot, part in target.cut(weights).items():
            parameters[slot].copy_(part)
        reseed()
        wanted.append(module(*(part.clone() for part in inputs)))
        reseed()
        try:
            found.append(target(weights, *(part.clone() for part in inputs), buffers=target.fresh_buffers()))
        except Exception as error:
            raise UsageError(f"{name} cannot use generated weights: {first_line(error)}") from error
    if not all(isinstance(outputs, Tensor) for outputs in (*found, *wanted)):
        return  # `Goal.check` raises the error
    same = all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-3, atol=1e-4, equal_nan=True)
        for a, b in zip(found, wanted, strict=True)
    )
    if not same or torch.equal(*found):
        raise UsageError(
            f"{name} does not use the weights that are generated for it; hooks or copies of its parameters may be "
            "the reason."
        )
