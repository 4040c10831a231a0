"""Generated networks that are kept at hand while many questions are asked of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
from torch import Tensor

ROOM = 512 * 2**20
"""Bytes of generated weights that are kept; what does not fit is generated again for each question."""


class WeightCache:
    """The weights of tasks' networks, kept until what generates them moves."""

    def __init__(self) -> None:
        self._kept: dict[int, tuple[object, Tensor]] = {}
        """The weights of each task, with the stamp of what they came from."""

    @torch.no_grad()
    def get(self, task_id: int, moved: Iterable[Tensor], generate: Callable[[], Tensor]) -> Tensor:
        """Return a task's weights, generated anew if one of the tensors that they come from has moved."""
        stamp = tuple((id(p), p._version, p.device, p.dtype) for p in moved)
        before, weights = self._kept.get(task_id, (stamp, None))
        if stamp != before:  # what has moved is mostly shared by all tasks
            self._kept, weights = {}, None
        if weights is None:
            weights = generate()
            if (len(self._kept) + 1) * weights.nbytes <= ROOM:
                self._kept[task_id] = stamp, weights
        return weights

    def drop(self) -> None:
        """Forget them, after a change that no tensor shows: fused optimizers do not count up its version."""
        self._kept = {}
