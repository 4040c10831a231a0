"""What people hand over as data, made into whole tensors."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.utils.data import DataLoader, TensorDataset

from mnemon.errors import UsageError

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

    def __len__(self) -> int:
        return len(self.targets)

    @property
    def device(self) -> torch.device:
        """Where the examples lie."""
        return self.targets.device

    def batch(self, index: Tensor | slice) -> tuple[Inputs, Tensor]:
        """Return the examples at these places, ready for a module."""
        return tuple(_as_floats(part[index]) for part in self.inputs), self.targets[index]

    def to(self, device: torch.device) -> Data:
        """Return the same examples on another device."""
        return Data(tuple(part.to(device) for part in self.inputs), self.targets.to(device))


def collect(data: Any, what: str = "data") -> Data:
    """Return data of any kind as whole tensors, or say what is wrong with them."""
    inputs, targets = _parts(data, what)
    inputs = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    found = Data(
        tuple(_tensor(part, f"{what}: inputs") for part in inputs),
        _target_tensor(_tensor(targets, f"{what}: targets")),
    )
    for part in found.inputs:
        if len(part) != len(found):
            raise UsageError(f"{what}: there are {len(part)} inputs but {len(found)} targets.")
    if not len(found):
        raise UsageError(f"{what}: it is empty.")
    return found


def collect_inputs(inputs: Any) -> Inputs:
    """Return inputs without targets as tensors."""
    parts = inputs if isinstance(inputs, (tuple, list)) else (inputs,)
    found = tuple(_tensor(part, "inputs") for part in parts)
    if not found or not len(found[0]):
        raise UsageError("There are no inputs.")
    if any(len(part) != len(found[0]) for part in found):
        raise UsageError(f"The inputs have different lengths: {', '.join(str(len(part)) for part in found)}.")
    return tuple(_as_floats(part) for part in found)


def _parts(data: Any, what: str) -> tuple[Any, Any]:
    """Return inputs and targets, still of any kind."""
    if isinstance(data, (tuple, list)) and len(data) == 2 and not isinstance(data[0], (int, float)):
        return data[0], data[1]
    if isinstance(data, TensorDataset):
        *inputs, targets = data.tensors
        return inputs, targets
    if isinstance(data, DataLoader):
        return _joined(data, what)
    if hasattr(data, "dataset") and hasattr(data, "classes_in_this_experience"):  # an Avalanche experience
        return _joined(_batches(data.dataset), what, with_task=True)
    if hasattr(data, "get_raw_samples") and hasattr(data, "nb_classes"):  # a continuum task set
        return _joined(_batches(data), what, with_task=True)
    if hasattr(data, "__getitem__") and hasattr(data, "__len__") and not isinstance(data, (Tensor, np.ndarray, str)):
        return _joined(_batches(data), what)
    raise UsageError(f"{what} must be {KINDS}, not {type(data).__name__}.")


def _batches(dataset: Any) -> Iterable[Any]:
    """Read a data set once, in order."""
    return DataLoader(dataset, batch_size=min(1000, max(1, len(dataset))))


def _joined(batches: Iterable[Any], what: str, with_task: bool = False) -> tuple[list[Tensor], Tensor]:
    """Join batches (inputs …, targets), of which some kinds name the task as well."""
    columns: list[list[Tensor]] = []
    for batch in batches:
        parts = list(batch) if isinstance(batch, (tuple, list)) else [batch]
        parts = parts[:-1] if with_task and len(parts) > 2 else parts
        if len(parts) < 2 or not all(isinstance(part, (Tensor, np.ndarray)) for part in parts):
            raise UsageError(f"{what}: an example must be (inputs …, target) of tensors, arrays or numbers.")
        columns = columns or [[] for _ in parts]
        for column, part in zip(columns, parts, strict=True):
            column.append(torch.as_tensor(part))
    if not columns:
        raise UsageError(f"{what}: it is empty.")
    *inputs, targets = (torch.cat(column) for column in columns)
    return inputs, targets


def _tensor(values: Any, what: str) -> Tensor:
    if isinstance(values, np.ndarray) and values.dtype.kind not in "biuf":
        raise UsageError(f"{what} must be numbers, not {values.dtype}.")
    try:
        tensor = torch.as_tensor(values).detach()
    except (TypeError, ValueError, RuntimeError) as error:
        raise UsageError(f"{what} must be tensors or arrays of numbers: {error}.") from error
    if tensor.ndim == 0:
        raise UsageError(f"{what} must hold one entry per example, not a single number.")
    if tensor.dtype == torch.float64:
        tensor = tensor.to(torch.get_default_dtype())
    if tensor.is_floating_point() and not torch.isfinite(tensor).all():
        bad = int((~torch.isfinite(tensor.flatten(1) if tensor.ndim > 1 else tensor[:, None])).any(1).nonzero()[0])
        raise UsageError(f"{what} hold a value that is not finite, first in example {bad}.")
    return tensor


def _target_tensor(targets: Tensor) -> Tensor:
    if targets.is_floating_point() or targets.dtype == torch.bool:
        return targets
    return targets.long()


def _as_floats(part: Tensor) -> Tensor:
    return part.to(torch.get_default_dtype()).div_(255) if part.dtype == torch.uint8 else part
