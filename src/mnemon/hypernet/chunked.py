"""A hypernetwork that is asked once per chunk of weights, each chunk with an embedding of its own."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemon.hypernet.base import AbstractHypernet, check_sizes


class ChunkedHypernet(AbstractHypernet):
    """Generates the weights in chunks. An input row is the task embedding, followed by the embedding of the chunk.

    Example:
        >>> hypernet = mnemon.ChunkedHypernet(100, 8, (10,), nn.ELU, chunk=30, chunk_embedding_size=4)
        >>> hypernet(torch.zeros(8)).shape
        torch.Size([100])
    """

    def __init__(
        self,
        size: int,
        embedding_size: int,
        hidden: Sequence[int],
        activation: type[nn.Module],
        chunk: int,
        chunk_embedding_size: int,
        edges: Sequence[int] | None = None,
    ):
        """Make the layers and the chunk embeddings.

        Args:
            size: Weights to generate.
            embedding_size: Length of a task embedding.
            hidden: Widths of the feature layers.
            activation: The activation after each feature layer.
            chunk: Weights per chunk.
            chunk_embedding_size: Length of a chunk embedding.
            edges: Where in the flat weights each chunk begins, and where the last one ends. Default: chunks of equal
                size.
        """
        check_sizes(chunk=chunk, chunk_embedding_size=chunk_embedding_size)
        n_rows = len(edges) - 1 if edges else -(-size // chunk)
        row_width = embedding_size + chunk_embedding_size
        super().__init__(size, embedding_size, row_width, n_rows, chunk, hidden, activation, edges)
        self.chunk_embeddings = nn.Parameter(torch.empty(n_rows, chunk_embedding_size))

    def rows(self, embeddings: Tensor, row: Tensor) -> Tensor:
        """Join each task embedding with the embedding of its chunk."""
        return torch.cat([embeddings, self.chunk_embeddings[row]], dim=1)

    def grid_start(self, embeddings: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the part of the task and the part of the chunk, added: each is computed once."""
        of_task, of_chunk = weight.split((self.embedding_size, self.chunk_embeddings.shape[1]), dim=1)
        by_task = nn.functional.linear(embeddings, of_task)
        by_chunk = nn.functional.linear(self.chunk_embeddings, of_chunk, bias)
        return (by_chunk[:, None] + by_task).flatten(0, 1)
