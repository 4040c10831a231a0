"""A hypernetwork that gives all weights at once."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mnemon.hypernet.base import AbstractHypernet


class FullHypernet(AbstractHypernet):
    """One row, the task embedding itself; the readout is as wide as the target has weights."""

    def __init__(self, size: int, embedding_size: int, hidden: Sequence[int], activation: type[nn.Module]):
        super().__init__(size, embedding_size, embedding_size, 1, size, hidden, activation)

    def rows(self, embeddings: Tensor, row: Tensor) -> Tensor:
        """Return the embeddings as they are."""
        return embeddings

    def grid_rows(self, embeddings: Tensor) -> Tensor:
        """Return the embeddings: there is one row per task."""
        return embeddings
