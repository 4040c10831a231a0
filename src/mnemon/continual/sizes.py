"""How large a hypernetwork should be for a module, so that the user need not know."""

from __future__ import annotations

from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig
from mnemon.hypernet.init import Init

EMBEDDING = 16
"""Length of a task embedding."""
WIDTHS = (32, 24, 16, 12, 8, 6, 4)
"""Widths of the two feature layers that are tried, the widest first."""


def hypernet_for(n_weights: int, compression: float) -> HypernetConfig:
    """Return the settings of a hypernetwork with about compression times as many parameters as it generates."""
    if not 0 < compression < float("inf"):
        raise UsageError(f"compression must be a finite number above 0, not {compression}.")
    budget = compression * n_weights
    for width in WIDTHS:
        chunk_embedding = min(width, 16)
        features = (EMBEDDING + chunk_embedding + 1) * width + (width + 1) * width
        # Each chunk costs an embedding; their number follows from the chunk's size, which follows from the rest.
        n_chunks = -(-(width + 1) // max(compression, 1e-9))
        chunk = int((budget - features - n_chunks * chunk_embedding) / (width + 1))
        if chunk >= max(1, min(2 * width, n_weights)):
            return HypernetConfig(
                hidden=(width, width),
                embedding_size=EMBEDDING,
                chunk=min(chunk, n_weights),
                chunk_embedding_size=chunk_embedding,
                init=Init.XAVIER,
            )
    least = _count(WIDTHS[-1], n_weights) / n_weights
    raise UsageError(
        f"A hypernetwork of {compression:g} times {n_weights:,} weights is too small to be of use: set compression "
        f"to {least:.2g} or more, or give hypernet=HypernetConfig(...)."
    )


def _count(width: int, n_weights: int) -> int:
    """Return the parameters of the smallest hypernetwork of a width that is of use."""
    chunk = min(2 * width, n_weights)
    n_chunks = -(-n_weights // chunk)
    return (EMBEDDING + width + 1) * width + (width + 1) * width + n_chunks * width + (width + 1) * chunk
