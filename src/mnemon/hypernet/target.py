"""Any `nn.Module` on weights that are given from outside."""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError, join_some, suggest
from mnemon.hypernet.statistics import GeneratedStatistics, Statistics, forget_statistics, norms_of

Buffers = dict[str, Tensor]
LARGE = 100_000
"""Weights from which a backward pass of our own pays for itself."""


class Slot(NamedTuple):
    """A parameter of the module and its place in the flat vector of generated weights."""

    name: str
    shape: torch.Size
    start: int
    dtype: torch.dtype = torch.float32

    @property
    def stop(self) -> int:
        return self.start + math.prod(self.shape)


class Target(nn.Module):
    """A module that computes with weights from outside: one flat vector, in the order of the module's parameters.

    The module's own values of generated parameters only give the shapes; they are neither trained nor counted. Where
    nothing is generated in a part of the module, its buffers stay as they are, such as the statistics of a frozen
    batch norm. Generated statistics follow the weights in the flat vector, and are used in evaluation mode.

    Example:
        >>> target = mnemon.Target(nn.Linear(4, 3))
        >>> target(torch.zeros(target.size), torch.rand(2, 4)).shape
        torch.Size([2, 3])
    """

    def __init__(
        self,
        module: nn.Module,
        generate: Sequence[str] = ("*",),
        statistics: Statistics = Statistics.PER_TASK,
    ):
        """Take over a module, whose parameters no longer require gradients.

        Args:
            module: Any module.
            generate: Patterns of the names of parameters that are generated. All others stay frozen at their values.
            statistics: Which statistics batch norm uses.
        """
        super().__init__()
        self.module = module.requires_grad_(False)
        self.slots: list[Slot] = []
        chosen, start = _matching(module, generate), 0
        for name, parameter in module.named_parameters():
            if name in chosen:
                self.slots.append(Slot(name, parameter.shape, start, parameter.dtype))
                start = self.slots[-1].stop
        self.frozen = _frozen(module, chosen)
        """Names of the parameters that stay as they came; a tied one has several."""
        self.n_weights = start
        """Weights alone; `size` counts generated statistics, too."""
        self._halves = [slot for slot in self.slots if slot.dtype in (torch.float16, torch.bfloat16)]
        self._resting = _resting(module, self.slots)
        norms = norms_of(module, self._resting)
        self.statistics = GeneratedStatistics(norms if statistics is Statistics.GENERATED else {})
        if statistics is Statistics.BATCH:
            for layer in norms.values():
                forget_statistics(layer)
        self.size = self.n_weights + self.statistics.size
        self._homes = _homes(module)
        self._parts = list(self.modules())
        self._sizes = [*(slot.stop - slot.start for slot in self.slots), self.statistics.size]

    def train(self, mode: bool = True) -> Target:
        """Set the mode of the module; frozen parts always stay in evaluation mode.

        Args:
            mode: Training mode or evaluation mode.

        Returns:
            The target itself.
        """
        super().train(mode)
        for part in self._resting:
            part.training = False
        return self

    def cut(self, weights: Tensor, slots: Sequence[Slot] | None = None) -> dict[str, Tensor]:
        """Cut a flat vector into the tensors of the module.

        Args:
            weights: The flat vector [size, or longer].
            slots: Where the tensors are in the vector, if it is only an excerpt.

        Returns:
            The tensors by the names of the parameters.

        Example:
            >>> {name: part.shape for name, part in target.cut(torch.zeros(15)).items()}
            {'weight': torch.Size([3, 4]), 'bias': torch.Size([3])}
        """
        split = _Cut.apply if self.size > LARGE else torch.split
        if slots is None:
            slots, parts = self.slots, split(weights, [*self._sizes, len(weights) - self.size])
        else:
            parts = split(weights, _with_gaps(slots, len(weights)))[1::2]
        tensors = {slot.name: part.view(slot.shape) for slot, part in zip(slots, parts, strict=False)}
        # Weights are generated in full precision, whatever the module computes in.
        return tensors | {slot.name: tensors[slot.name].to(slot.dtype) for slot in self._halves}

    def forward(
        self,
        weights: Tensor,
        *inputs: Tensor,
        buffers: Mapping[str, Tensor] | None = None,
        outputs: tuple[int, int] | None = None,
        slots: Sequence[Slot] | None = None,
    ) -> Tensor:
        """Run the module with these weights.

        Args:
            weights: The flat vector of weights [size, or longer].
            *inputs: The inputs of the module.
            buffers: Buffers by name; in training mode they are updated in place.
            outputs: (first, last + 1): compute only these outputs, by cutting the last layer first.
            slots: Where the tensors are in the vector, if it is only an excerpt.

        Returns:
            The outputs of the module.
        """
        tensors = self.cut(weights, slots)
        if self.statistics.size and not self.module.training:
            tensors |= self.statistics.read(weights[self.n_weights : self.size])
            buffers = {name: buffer for name, buffer in (buffers or {}).items() if name not in tensors}
        if outputs is not None:
            tensors |= {slot.name: tensors[slot.name][slice(*outputs)] for slot in self.head_slots()}
        return self._run({**tensors, **(buffers or {})}, inputs)

    def _run(self, tensors: Mapping[str, Tensor], inputs: Sequence[Tensor]) -> Tensor:
        """Run the module with tensors in the places of its own.

        `torch.func.functional_call` does this too, but looks for the places anew in every call. No context: one that
        is interrupted at its end may put things back at any later time, when it is found to be rubbish.
        """
        # The dictionaries are looked up now: a module that was mended after an interrupt has new ones.
        places = [(getattr(p, kind), key, new) for name, new in tensors.items() for p, kind, key in self._homes[name]]
        before = [holder[key] for holder, key, _ in places]
        try:
            for holder, key, new in places:
                holder[key] = new
            return self.module(*inputs)
        finally:
            for (holder, key, _), old in zip(places, before, strict=True):
                holder[key] = old

    def mender(self) -> Callable[[], None]:
        """Return what puts the module's own tensors back into it, and sets its parts to the modes that they have now.

        An interrupt may leave some tensors from outside in their places, or some parts in another mode; all later
        answers would come from a mixture of networks.
        """
        kept = [(part, dict(part._parameters), dict(part._buffers), part.training) for part in self._parts]

        def mend() -> None:
            for part, parameters, buffers, training in kept:
                part._parameters, part._buffers, part.training = parameters, buffers, training

        return mend

    def fresh_buffers(self) -> Buffers:
        """Return a copy of the buffers as the module came with them: the start of every task."""
        return {name: buffer.clone() for name, buffer in self.module.named_buffers()}

    def own_weights(self) -> Tensor:
        """Return the module's own parameters as one flat vector, in full precision; statistics as 0 and 1."""
        parameters = dict(self.module.named_parameters())
        own = [parameters[slot.name].detach().flatten() for slot in self.slots]
        own.append(own[0].new_zeros(self.statistics.size))
        # In the default type, unless that would round: half precision gets wider, float64 stays.
        return torch.cat([part.to(torch.promote_types(part.dtype, torch.get_default_dtype())) for part in own])

    def deviations(self, weights: Tensor) -> Tensor:
        """Return for each weight the standard deviation of its tensor. Tensors of equal values get the mean.

        Args:
            weights: The flat vector of weights.
        """
        found = [weights[slot.start : slot.stop].std(correction=0) for slot in self.slots]
        differing = [deviation for deviation in found if deviation > 0]
        mean = torch.stack(differing).mean() if differing else weights.new_ones(())
        units = [torch.where(d > 0, d, mean).expand(s.stop - s.start) for d, s in zip(found, self.slots, strict=True)]
        return torch.cat([*units, weights.new_ones(self.statistics.size)])

    def head_slots(self) -> list[Slot]:
        """Return the slots of the last layer: one row per output, if the module is an ordinary one."""
        prefix = self.slots[-1].name.rpartition(".")[0]
        return [slot for slot in self.slots if slot.name.rpartition(".")[0] == prefix]

    @torch.no_grad()
    def can_cut_outputs(self, inputs: Tensor) -> bool:
        """Tell whether the module still works if its last layer is cut to some of its outputs, by trying it.

        Args:
            inputs: Some inputs.
        """
        was_training = self.module.training
        compiled, self.module._compiled_call_impl = self.module._compiled_call_impl, None  # not for a single try
        self.eval()
        try:
            return self._cuts_outputs_now(inputs)
        finally:
            self.train(was_training)
            self.module._compiled_call_impl = compiled

    def _cuts_outputs_now(self, inputs: Tensor) -> bool:
        # Not the weights as they come: a last layer that starts at 0 would hide how its outputs hang together.
        own, buffers = self.own_weights(), self.fresh_buffers()
        weights = own + 0.1 * torch.linspace(1, 100, len(own), device=own.device, dtype=own.dtype).cos()
        whole = self(weights, inputs, buffers=buffers)
        if any(slot.shape[:1] != whole.shape[-1:] for slot in self.head_slots()):
            return False
        some = (whole.shape[-1] // 3, whole.shape[-1] // 3 + 1)
        try:
            part = self(weights, inputs, buffers=buffers, outputs=some)
        except (RuntimeError, IndexError):
            return False
        wanted = whole[..., slice(*some)]
        return part.shape == wanted.shape and torch.allclose(part, wanted, rtol=1e-3, atol=1e-5)


Home = tuple[nn.Module, str, str]
"""A module, the name of its dictionary of parameters or buffers, and the key in it."""


def _homes(module: nn.Module) -> dict[str, list[Home]]:
    """Return for each parameter and buffer the places that hold it: several, if it is tied."""
    found: dict[int, dict[tuple[int, str, str], Home]] = {}
    names: dict[str, int] = {}
    for path, part in module.named_modules(remove_duplicate=False):
        for kind in ("_parameters", "_buffers"):
            for key, value in getattr(part, kind).items():
                if value is not None:
                    names[f"{path}.{key}" if path else key] = id(value)
                    found.setdefault(id(value), {})[id(part), kind, key] = (part, kind, key)
    return {name: list(found[which].values()) for name, which in names.items()}


def _with_gaps(slots: Sequence[Slot], total: int) -> list[int]:
    """Return the sizes of a gap, a slot, a gap, a slot and so on, and of what is left."""
    sizes, at = list[int](), 0
    for slot in slots:
        sizes += [slot.start - at, slot.stop - slot.start]
        at = slot.stop
    return [*sizes, total - at]


def _matching(module: nn.Module, patterns: Sequence[str]) -> set[str]:
    """Return the names of the parameters that patterns match; one that matches none is refused."""
    names, chosen = [name for name, _ in module.named_parameters()], set[str]()
    for pattern in patterns or ("",):
        found = {name for name in names if fnmatch.fnmatchcase(name, pattern)}
        if not found:
            raise UsageError(
                f"generate: no parameter of {type(module).__name__} matches '{pattern}'.{suggest(pattern, names)} "
                f"It has: {join_some(names) or 'none'}."
            )
        chosen |= found
    return chosen


def _frozen(module: nn.Module, chosen: set[str]) -> set[str]:
    """Return all names of the parameters other than the chosen ones."""
    generated = {id(parameter) for name, parameter in module.named_parameters() if name in chosen}
    everything = module.named_parameters(remove_duplicate=False)
    return {name for name, parameter in everything if id(parameter) not in generated}


def _resting(module: nn.Module, slots: Sequence[Slot]) -> list[nn.Module]:
    """Return the layers with buffers that lie in a part with parameters none of which is generated."""
    parameters = dict(module.named_parameters())
    generated = {id(parameters[slot.name]) for slot in slots}
    found: dict[int, nn.Module] = {}
    for part in module.modules():
        own = {id(parameter) for parameter in part.parameters()}
        if own and not own & generated:
            found |= {id(layer): layer for layer in part.modules() if list(layer.buffers(recurse=False))}
    return list(found.values())


class _Cut(torch.autograd.Function):
    """`torch.split`, with a backward pass that copies each gradient to its place.

    Slicing tensor by tensor would write the whole vector once per slice, and the concatenation in the backward
    pass of `torch.split` was measured up to ten times slower than these copies.
    """

    generate_vmap_rule = True  # the Fisher information takes gradients of many examples at once

    @staticmethod
    def forward(weights: Tensor, sizes: list[int]) -> tuple[Tensor, ...]:
        return weights.split(sizes)

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Tensor, list[int]], output: tuple[Tensor, ...]) -> None:
        weights, ctx.sizes = inputs
        ctx.shape = weights.shape

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor | None) -> tuple[Tensor, None]:
        like = next(g for g in gradients if g is not None)
        if torch.is_grad_enabled():  # a second derivative is wanted: the copies would not be followed
            return torch.cat(
                [like.new_zeros(n) if g is None else g for n, g in zip(ctx.sizes, gradients, strict=True)]
            ), None
        whole = like.new_empty(ctx.shape)
        for place, gradient in zip(whole.split(ctx.sizes), gradients, strict=True):
            place.zero_() if gradient is None else place.copy_(gradient)
        return whole, None
