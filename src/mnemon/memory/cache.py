"""A cache of generated networks, for many predictions in a row."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

ROOM = 512 * 2**20
"""Maximum bytes in the cache; what does not fit is generated again at each call."""


class WeightCache:
    """The weights of tasks' networks, cached until the tensors that generate them change."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, Tensor]] = {}
        """The weights of each task, with the versions of the tensors that generated them."""

    @torch.no_grad()
    def get(self, task_id: int, moved: Iterable[Tensor], generate: Callable[[], Tensor]) -> Tensor:
        """Return a task's weights, generated again if one of the tensors that generate them has changed."""
        stamp = tuple((id(p), p._version, p.device, p.dtype) for p in moved)
        before, weights = self._kept.get(task_id, (stamp, None))
        if stamp != before:  # mostly tensors that all tasks share have changed
            self._kept, weights = {}, None
        if weights is None:
            weights = generate()
            if (len(self._kept) + 1) * weights.nbytes <= ROOM:
                self._kept[task_id] = stamp, weights
        return weights

    def drop(self) -> None:
        """Empty the cache, after a change that is not visible in versions: fused optimizers do not increase them."""
        self._kept = {}
