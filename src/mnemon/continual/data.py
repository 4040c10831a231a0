"""Convert the user's data into whole tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, IterableDataset, TensorDataset, default_collate

from mnemon.errors import UsageError, reason_of
from mnemon.seeding import with_random_numbers

Inputs = tuple[Tensor, ...]
"""The inputs of a module in the order of its arguments: usually one tensor."""

KINDS = (
    "a pair (inputs, targets) of tensors or numpy arrays, a Dataset, a DataLoader, an Avalanche experience or a "
    "continuum task set"
)


@dataclass(frozen=True)
class Data:
    """Examples as whole tensors; a batch is a gather. Bytes become floats from 0 to 1."""

    inputs: Inputs
    targets: Tensor
    floats: torch.dtype | None = None
    """The type of floats that the module takes; None is the default type."""

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def device(self) -> torch.device:
        """The device of the examples."""
        return self.targets.device

    def batch(self, index: Tensor | slice) -> tuple[Inputs, Tensor]:
        """Return the examples at these indices, ready for a module."""
        return tuple(_from_bytes(part[index], self.floats) for part in self.inputs), self.targets[index]

    def to(self, device: torch.device, floats: torch.dtype | None = None) -> Data:
        """Return the same examples on another device, as floats of this type."""
        wide = torch.promote_types(floats or torch.get_default_dtype(), torch.float32)
        targets = self.targets.to(device, wide if self.targets.is_floating_point() else None)
        return Data(tuple(_as_floats(part.to(device), floats) for part in self.inputs), targets, floats)


def collect(data: Any, what: str = "data") -> Data:
    """Return data of any kind as whole tensors, or say what is wrong with them."""
    inputs, targets = with_random_numbers(0, lambda: _parts(data, what))  # a loader that shuffles draws some
    found = Data(
        tuple(_tensor(part, f"{what}: inputs") for part in _each(inputs)),
        _target_tensor(_tensor(targets, f"{what}: targets")),
    )
    if not found.inputs:
        raise UsageError(f"{what}: there are targets but no inputs.")
    for part in found.inputs:
        if len(part) != len(found):
            raise UsageError(f"{what}: there are {len(part)} inputs but {len(found)} targets.")
    if not len(found):
        raise UsageError(f"{what}: it is empty.")
    return found


def collect_inputs(inputs: Any, device: torch.device | None = None, floats: torch.dtype | None = None) -> Inputs:
    """Return inputs without targets as tensors, ready for a module."""
    found = tuple(_tensor(part, "inputs") for part in _each(inputs))
    if not found or not len(found[0]):
        raise UsageError("There are no inputs.")
    if any(len(part) != len(found[0]) for part in found):
        raise UsageError(f"The inputs have different lengths: {', '.join(str(len(part)) for part in found)}.")
    return tuple(_from_bytes(_as_floats(part.to(device), floats), floats) for part in found)


def _each(inputs: Any) -> tuple[Any, ...]:
    """Return the inputs of a module one by one: several come in a tuple or a list of arrays."""
    several = isinstance(inputs, (tuple, list)) and all(_is_array(part) for part in inputs)
    return tuple(inputs) if several else (inputs,)


def _is_array(values: Any) -> bool:
    return hasattr(values, "__array__")  # tensors have it, too


def _parts(data: Any, what: str) -> tuple[Any, Any]:
    """Return inputs and targets, still of any kind."""
    if isinstance(data, TensorDataset):
        *inputs, targets = data.tensors
        return inputs, targets
    if isinstance(data, DataLoader):
        return _join(data, what)
    if hasattr(data, "dataset") and hasattr(data, "classes_in_this_experience"):  # an Avalanche experience
        return _join(_batches(data.dataset, what), what, with_task=True)
    if hasattr(data, "get_raw_samples") and hasattr(data, "nb_classes"):  # a continuum task set
        return _join(_batches(data, what), what, with_task=True)
    if isinstance(data, (tuple, list)) and not _is_of_examples(data):
        if len(data) == 2:
            return data[0], data[1]
        raise UsageError(
            f"{what} must be a pair (inputs, targets), not {len(data)} values; several inputs go into a tuple: "
            "((first, second), targets)."
        )
    if isinstance(data, IterableDataset) or (
        hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (str, bytes, Mapping))
        and not _is_array(data)
    ):  # fmt: skip
        return _join(_batches(data, what), what)
    raise UsageError(f"{what} must be {KINDS}, not {type(data).__name__}.")


def _is_of_examples(data: tuple[Any, ...] | list[Any]) -> bool:
    """Tell a list of examples (input, target) from a pair (inputs, targets)."""
    return isinstance(data, list) and all(isinstance(example, tuple) for example in data)


def _batches(dataset: Any, what: str) -> Iterable[Any]:
    """Read a data set once, in order."""

    def collate(examples: list[Any]) -> Any:
        try:
            return default_collate(examples)
        except (TypeError, RuntimeError, ValueError) as error:
            raise UsageError(f"{what}: its examples cannot be combined: {reason_of(error)}.") from error

    if not isinstance(dataset, IterableDataset) and not len(dataset):
        return []
    return DataLoader(dataset, batch_size=1000, collate_fn=collate)


def _read(batches: Iterable[Any], what: str) -> Iterable[Any]:
    """Yield the batches of a loader; raise UsageError if it cannot combine the examples."""
    try:
        yield from batches
    except (RuntimeError, TypeError) as error:  # of the loader's collate function
        raise UsageError(f"{what}: its examples cannot be combined: {reason_of(error)}.") from error


def _join(batches: Iterable[Any], what: str, with_task: bool = False) -> tuple[list[Tensor], Tensor]:
    """Join batches (inputs …, targets), of which some kinds name the task as well."""
    columns: list[list[Tensor]] = []
    for batch in _read(batches, what):
        parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        parts = parts[:-1] if with_task and len(parts) > 2 else parts
        if parts and isinstance(parts[0], (tuple, list)):  # ((first, second), targets)
            parts = [*parts[0], *parts[1:]]
        if len(parts) < 2 or not all(isinstance(part, (Tensor, np.ndarray)) for part in parts):
            raise UsageError(f"{what}: an example must be (inputs …, target) of tensors, arrays or numbers.")
        columns = columns or [[] for _ in parts]
        if len(parts) != len(columns):
            raise UsageError(f"{what}: some batches have {len(columns)} parts and others {len(parts)}.")
        for i, (column, part) in enumerate(zip(columns, parts, strict=True)):
            name = "targets" if i == len(parts) - 1 else "inputs"
            column.append(_tensor(part, f"{what}: {name}"))
    if not columns:
        raise UsageError(f"{what}: it is empty.")
    try:
        *inputs, targets = (torch.cat(column) for column in columns)
    except RuntimeError as error:
        raise UsageError(f"{what}: its batches cannot be combined: {reason_of(error)}.") from error
    return inputs, targets


def _tensor(values: Any, what: str) -> Tensor:
    if np.ma.is_masked(values):
        raise UsageError(f"{what} are masked: fill the masked values (.filled(0)), or leave out these examples.")
    if _is_array(values) and not isinstance(values, Tensor):
        values = np.asarray(values)
        if values.dtype.kind not in "biuf":
            raise UsageError(f"{what} must be numbers, not {values.dtype}.")
        # Torch takes neither turned nor read-only memory, nor another byte order.
        values = np.require(values, values.dtype.newbyteorder("="), ["C", "W"])
    try:
        tensor = torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} must be tensors or arrays of numbers: {reason_of(error)}.") from error
    _check_dense(tensor, what)
    if tensor.is_complex():
        raise UsageError(f"{what} must be real numbers, not {str(tensor.dtype).removeprefix('torch.')}.")
    if tensor.ndim == 0:
        raise UsageError(f"{what} must hold one entry per example, not a single number.")
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        bad = int((~torch.isfinite(tensor.reshape(len(tensor), -1))).any(1).nonzero()[0])
        raise UsageError(f"{what} hold a value that is not finite, first in example {bad}.")
    return tensor


def _check_dense(tensor: Tensor, what: str) -> None:
    """Refuse tensors that are not dense blocks of plain numbers."""
    if tensor.is_nested:
        raise UsageError(f"{what} must be of one shape, not nested: pad them.")
    if tensor.layout != torch.strided:
        raise UsageError(f"{what} must be dense, not {str(tensor.layout).removeprefix('torch.')}.")
    if tensor.is_meta:
        raise UsageError(f"{what} hold no values: they are on the device 'meta'.")
    if tensor.is_quantized:
        raise UsageError(f"{what} must be plain numbers, not quantized: call .dequantize().")


def _target_tensor(targets: Tensor) -> Tensor:
    if targets.is_floating_point() or targets.dtype == torch.bool:
        return targets
    found = targets.long()
    if targets.dtype == torch.uint64 and bool((found < 0).any()):
        raise UsageError("Classes must be below 2**63; there is a larger one.")
    return found


def _as_floats(part: Tensor, floats: torch.dtype | None) -> Tensor:
    """Return floats in the type that the module takes; without one, float64 is made the default type."""
    if not part.is_floating_point() or (floats is None and part.dtype != torch.float64):
        return part
    return part.to(floats or torch.get_default_dtype())


def _from_bytes(part: Tensor, floats: torch.dtype | None) -> Tensor:
    """Return bytes as floats from 0 to 1, and anything else as it is."""
    return part.to(floats or torch.get_default_dtype()).div_(255) if part.dtype == torch.uint8 else part
