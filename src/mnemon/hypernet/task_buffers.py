"""A set of a network's buffers (such as batch-norm statistics) for every task, or one for all tasks."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import nn

from mnemon.hypernet.target import Buffers


class TaskBuffers(nn.Module):
    """Grows by a fresh set with every task; registered, so that the sets move and are saved with the learner.

    With `shared` there is a single set, which the first task starts and the others go on with.
    """

    def __init__(self, module: nn.Module, only: Callable[[str], bool] = lambda name: True, shared: bool = False):
        super().__init__()
        self.shared = shared
        self._fresh: Buffers = {name: buffer.clone() for name, buffer in module.named_buffers() if only(name)}
        self._n_sets = 0

    @property
    def numel_per_task(self) -> int:
        return 0 if self.shared else self._numel

    @property
    def numel_shared(self) -> int:
        return self._numel if self.shared else 0

    @property
    def _numel(self) -> int:
        return sum(buffer.numel() for buffer in self._fresh.values())

    @property
    def nbytes_per_task(self) -> int:
        return 0 if self.shared else self._nbytes

    @property
    def nbytes_shared(self) -> int:
        return self._nbytes if self.shared else 0

    @property
    def _nbytes(self) -> int:
        return sum(buffer.nbytes for buffer in self._fresh.values())

    def add(self, device: torch.device) -> None:
        """Add a fresh set for a new task, unless it shares the one that is there."""
        if not (self.shared and self._n_sets):
            self._set([*map(self._get, range(self._n_sets)), _on(device, self._fresh)])

    def select_tasks(self, order: Sequence[int]) -> None:
        """Keep the sets of these tasks, in this order, and drop the others; a shared one stays."""
        if not self.shared:
            self._set([self[task_id] for task_id in order])

    def _set(self, sets: Sequence[Buffers]) -> None:
        """Have these sets, and no others; all at once, so that an interrupt cannot leave half of one."""
        self._buffers = {_key(i, name): buffer for i, found in enumerate(sets) for name, buffer in found.items()}
        self._n_sets = len(sets)

    def __getitem__(self, task_id: int) -> Buffers:
        return self._get(0 if self.shared else task_id)

    def _get(self, place: int) -> Buffers:
        return {name: getattr(self, _key(place, name)) for name in self._fresh}


def _on(device: torch.device, buffers: Buffers) -> Buffers:
    """Return copies of buffers on a device."""
    return {name: buffer.clone().to(device) for name, buffer in buffers.items()}


def _key(task_id: int, name: str) -> str:
    return f"{task_id}/{name}".replace(".", "/")  # a registered name must not hold a dot
