r"""A hypernetwork is features of rows and one linear readout; the penalty lives on that split.

$$\text{weights} = [h \; 1] \, R, \qquad h = \text{features}(\text{rows}(e)), \qquad
  R \in \mathbb{R}^{(k+1) \times \text{chunk}}$$

One row gives up to `chunk` weights; `edges` tells where one row's weights end and the next one's begin. Usually
every row is full and only the tail of the last one is thrown away. The bias is the last row of the readout. `R` is
stored features x outputs, which makes both the generation of weights and the products of the penalty run along
contiguous memory (four times faster than the layout of `nn.Linear`).
"""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError

Layer = tuple[Tensor, Tensor]
"""Weight and bias."""
MANY = 1024
"""Rows from which on it is worth to round up the widths of the features."""


class AbstractHypernet(nn.Module, ABC):
    """Maps a task embedding to the `size` weights of a target network.

    A subclass says what its input rows are (`rows`); all other methods follow from it.

    Example:
        >>> hypernet = mnemon.ChunkedHypernet(100, 8, (10,), nn.ELU, chunk=30, chunk_embedding_size=4)
        >>> isinstance(hypernet, mnemon.AbstractHypernet), hypernet.n_rows
        (True, 4)
    """

    _used: Tensor | None

    def __init__(
        self,
        size: int,
        embedding_size: int,
        row_width: int,
        n_rows: int,
        chunk: int,
        hidden: Sequence[int],
        activation: type[nn.Module],
        edges: Sequence[int] | None = None,
    ):
        """Make the feature layers and the readout.

        Args:
            size: Weights to generate.
            embedding_size: Length of a task embedding.
            row_width: Length of an input row.
            n_rows: Rows per task.
            chunk: Weights that one row gives.
            hidden: Widths of the feature layers.
            activation: The activation after each feature layer.
            edges: Where in the flat weights each row begins, and where the last one ends. Default: chunks of equal
                size.

        Raises:
            UsageError: A size is below 1.
        """
        super().__init__()
        check_sizes(embedding_size=embedding_size)
        if any(width < 1 for width in hidden):
            raise UsageError(f"hypernet.hidden must hold widths of at least 1, not {list(hidden)}.")
        self.size, self.embedding_size, self.n_rows, self.chunk = size, embedding_size, n_rows, chunk
        self.edges = list(edges) if edges else [*range(0, size, chunk), size]
        """Where in the flat weights the rows begin, and at last where they end."""
        self.rows_are_full = self.edges[:-1] == list(range(0, size, chunk))
        self.register_buffer("_used", None if self.rows_are_full else self.places(), persistent=False)
        widths = [row_width, *hidden]
        self.layers = nn.ModuleList(nn.Linear(a, b) for a, b in itertools.pairwise(widths))
        self.activation = activation()
        self.width = widths[-1]
        self.readout = nn.Parameter(torch.empty(self.width + 1, chunk))

    def places(self) -> Tensor:
        """Return the place of every weight among all that the rows give, [size]."""
        pairs = enumerate(itertools.pairwise(self.edges))
        parts = [torch.arange(a, b, device="cpu") + (row * self.chunk - a) for row, (a, b) in pairs]
        return torch.cat(parts)

    @abstractmethod
    def rows(self, embeddings: Tensor, row: Tensor) -> Tensor:
        """Return input rows.

        Args:
            embeddings: Task embeddings [n, embedding_size].
            row: The row number for each of them [n].

        Returns:
            The input rows [n, row_width].
        """

    def features(self, embeddings: Tensor, row: Tensor) -> Tensor:
        """Return the features of rows.

        Args:
            embeddings: Task embeddings [n, embedding_size].
            row: The row number for each of them [n].

        Returns:
            The features [n, width].
        """
        h = self.rows(embeddings, row)
        for layer in self.layers:
            h = self.activation(layer(h))
        return h

    def task_features(self, embedding: Tensor) -> Tensor:
        """Return the features of all rows of one task.

        Args:
            embedding: The task embedding [embedding_size].

        Returns:
            The features [n_rows, width].
        """
        row = torch.arange(self.n_rows, device=embedding.device)
        return self.features(embedding.expand(self.n_rows, -1), row)

    def grid_features(self, embeddings: Tensor) -> Tensor:
        """Return the features of all rows of several tasks: row by row, and in each row task by task.

        For many rows the width is rounded up, with room for one more feature: matrix products are a quarter slower if
        rows do not begin at a multiple of 32 bytes. The columns after `width` have no meaning.

        Args:
            embeddings: Task embeddings [tasks, embedding_size].

        Returns:
            The features [n_rows * tasks, width or more].
        """
        if not self.layers:
            return self.grid_rows(embeddings)
        layers: list[Layer] = [(layer.weight, layer.bias) for layer in self.layers]  # type: ignore[misc]
        if len(embeddings) * self.n_rows >= MANY:
            layers = _round_up_widths(layers)
        h = self.activation(self.grid_start(embeddings, *layers[0]))
        for weight, bias in layers[1:]:
            h = self.activation(nn.functional.linear(h, weight, bias))
        return h

    def grid_rows(self, embeddings: Tensor) -> Tensor:
        """Return all input rows of several tasks.

        Args:
            embeddings: Task embeddings [tasks, embedding_size].

        Returns:
            The input rows [n_rows * tasks, row_width].
        """
        row = torch.arange(self.n_rows, device=embeddings.device).repeat_interleave(len(embeddings))
        return self.rows(embeddings.repeat(self.n_rows, 1), row)

    def grid_start(self, embeddings: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
        """Return the first feature layer, before its activation, for all rows of several tasks.

        Args:
            embeddings: Task embeddings [tasks, embedding_size].
            weight: The weight of the layer.
            bias: The bias of the layer.
        """
        return nn.functional.linear(self.grid_rows(embeddings), weight, bias)

    def forward(self, embedding: Tensor) -> Tensor:
        """Return the flat weights of a task.

        Args:
            embedding: The task embedding [embedding_size].

        Returns:
            The weights [size].

        Example:
            >>> hypernet(torch.zeros(8)).shape
            torch.Size([100])
        """
        return self.padded(embedding)[: self.size]

    def around(self, start: Tensor, embedding: Tensor, factor: Tensor | None = None) -> Tensor:
        """Return `start` plus the generated weights, in one matrix product. All rows must be full.

        Args:
            start: Weights to add to [n_rows * chunk].
            embedding: The task embedding [embedding_size].
            factor: How much of the generated weights to add. Default: all.
        """
        features = with_one(self.task_features(embedding))
        if factor is not None:
            features = features * factor
        return torch.addmm(start.view(self.n_rows, self.chunk), features, self.readout).flatten()

    def excerpt(self, embedding: Tensor, row: Tensor) -> Tensor:
        """Return the weights that some rows of a task give, joined.

        Args:
            embedding: The task embedding [embedding_size].
            row: The numbers of the rows [n].

        Returns:
            The weights [n * chunk].
        """
        return self.read(self.features(embedding.expand(len(row), -1), row)).flatten()

    def padded(self, embedding: Tensor) -> Tensor:
        """Return the flat weights; if all rows are full, followed by the unused columns of the last row.

        `Target` ignores these columns; to cut them off here would cost the backward pass a copy of all weights.

        Args:
            embedding: The task embedding [embedding_size].

        Returns:
            The weights [n_rows * chunk], or [size] if rows are not full.
        """
        flat = self.read(self.task_features(embedding)).flatten()
        return flat if self._used is None else flat.index_select(0, self._used)

    def read(self, features: Tensor) -> Tensor:
        """Return the readout of features.

        Args:
            features: The features [n, width].

        Returns:
            The weights [n, chunk].
        """
        return with_one(features) @ self.readout

    def count(self) -> int:
        """Return the number of trainable parameters, chunk embeddings included."""
        return sum(p.numel() for p in self.parameters())


def check_sizes(**sizes: int) -> None:
    """Refuse sizes below 1, by the names of their settings."""
    for name, size in sizes.items():
        if size < 1:
            raise UsageError(f"hypernet.{name} must be at least 1, not {size}.")


def _round_up_widths(layers: Sequence[Layer]) -> list[Layer]:
    """Return layers with outputs of 0 added, before the activation, so that their number is a multiple of 8."""
    rounded: list[Layer] = []
    for i, (weight, bias) in enumerate(layers):
        n_out = len(bias) + (i == len(layers) - 1)  # room for the constant feature 1
        more = -n_out % 8 + n_out - len(bias)
        more_in = 0 if not rounded else len(rounded[-1][1]) - weight.shape[1]
        pad = nn.functional.pad
        rounded.append((pad(weight, (0, more_in, 0, more)), pad(bias, (0, more))))
    return rounded


def with_one(features: Tensor) -> Tensor:
    """Append the constant feature 1, on which the readout's bias stands."""
    return torch.cat([features, features.new_ones(len(features), 1)], dim=1)
