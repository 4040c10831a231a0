"""One set of a network's buffers (such as batch-norm statistics) for every task."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mnemon.hypernet.target import Buffers


class TaskBuffers(nn.Module):
    """Grows by a fresh set with every task; registered, so that the sets move and are saved with the learner."""

    def __init__(self, module: nn.Module, only: Callable[[str], bool] = lambda name: True):
        super().__init__()
        self._fresh: Buffers = {name: buffer.clone() for name, buffer in module.named_buffers() if only(name)}
        self._n_tasks = 0

    @property
    def numel_per_task(self) -> int:
        return sum(buffer.numel() for buffer in self._fresh.values())

    @property
    def nbytes_per_task(self) -> int:
        return sum(buffer.nbytes for buffer in self._fresh.values())

    def add(self, device: torch.device) -> None:
        """Add a fresh set for a new task."""
        self._set([*map(self.__getitem__, range(self._n_tasks)), _on(device, self._fresh)])

    def arrange(self, order: Sequence[int]) -> None:
        """Keep the sets of these tasks, in this order, and drop the others."""
        self._set([self[task_id] for task_id in order])

    def _set(self, sets: Sequence[Buffers]) -> None:
        """Have these sets, and no others; all at once, so that an interrupt cannot leave half of one."""
        self._buffers = {_key(i, name): buffer for i, found in enumerate(sets) for name, buffer in found.items()}
        self._n_tasks = len(sets)

    def __getitem__(self, task_id: int) -> Buffers:
        return {name: getattr(self, _key(task_id, name)) for name in self._fresh}


def _on(device: torch.device, buffers: Buffers) -> Buffers:
    """Return copies of buffers on a device."""
    return {name: buffer.clone().to(device) for name, buffer in buffers.items()}


def _key(task_id: int, name: str) -> str:
    return f"{task_id}/{name}".replace(".", "/")  # a registered name must not hold a dot
