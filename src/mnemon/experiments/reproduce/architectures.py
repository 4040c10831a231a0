"""Hypernetworks drawn at random, by how many parameters they have beside their target."""

from __future__ import annotations

import itertools
import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Architectures:
    """What a chunked hypernetwork is drawn from, and the target that it is for."""

    layers: Sequence[int]
    """Numbers of hidden layers."""
    widths: Sequence[int]
    """Widths of all hidden layers."""
    chunks: Sequence[int]
    chunk_embeddings: Sequence[int]
    """Sizes of a chunk's embedding."""
    embedding_size: int
    """Size of a task's embedding, which is not drawn."""
    weights: int
    """Weights of the target."""
    n_tasks: int

    def compression(self, hidden: Sequence[int], chunk: int, chunk_embedding: int) -> float:
        """Return the parameters of a chunked hypernetwork and of all task embeddings, relative to the target."""
        n_chunks = -(-self.weights // chunk)
        widths = [self.embedding_size + chunk_embedding, *hidden]
        layers = sum((a + 1) * b for a, b in itertools.pairwise([*widths, chunk]))
        return (layers + n_chunks * chunk_embedding + self.n_tasks * self.embedding_size) / self.weights

    def draw(self, bins: Sequence[float], per_bin: int, seed: int) -> Iterator[tuple[float, float, list[str]]]:
        """Give up to so many different hypernetworks for each bin of compression, with the bin, as settings.

        Fewer are the first of more.
        """
        everything = list(self._everything())
        random.Random(seed).shuffle(everything)
        for low, high in itertools.pairwise(bins):
            fitting = (one for one in everything if low <= self.compression(*one) < high)
            for hidden, chunk, chunk_embedding in itertools.islice(fitting, per_bin):
                words = [
                    f"method.hypernet.hidden={list(hidden)}",
                    f"chunk={chunk}",
                    f"chunk_embedding_size={chunk_embedding}",
                ]
                yield low, high, words

    def _everything(self) -> Iterator[tuple[tuple[int, ...], int, int]]:
        for n_layers in self.layers:
            yield from itertools.product(
                itertools.product(self.widths, repeat=n_layers), self.chunks, self.chunk_embeddings
            )
