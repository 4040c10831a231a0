"""A hypernetwork that gives all weights at once."""

from __future__ import annotations

from collections.abc import Sequence

from torch import Tensor, nn

from mnemon.hypernet.base import AbstractHypernet


class FullHypernet(AbstractHypernet):
    """Generates all weights at once: the one input row is the task embedding.

    Example:
        >>> hypernet = mnemon.FullHypernet(100, embedding_size=8, hidden=(10,), activation=nn.ELU)
        >>> hypernet(torch.zeros(8)).shape
        torch.Size([100])
    """

    def __init__(self, size: int, embedding_size: int, hidden: Sequence[int], activation: type[nn.Module]):
        """Make the layers.

        Args:
            size: Weights to generate.
            embedding_size: Length of a task embedding.
            hidden: Widths of the feature layers.
            activation: The activation after each feature layer.
        """
        super().__init__(size, embedding_size, embedding_size, 1, size, hidden, activation)

    def rows(self, embeddings: Tensor, row: Tensor) -> Tensor:
        """Return the embeddings as they are."""
        return embeddings

    def grid_rows(self, embeddings: Tensor) -> Tensor:
        """Return the embeddings: there is one row per task."""
        return embeddings
