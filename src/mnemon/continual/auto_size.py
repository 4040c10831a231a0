"""Choose the size of a hypernetwork for a module."""

from __future__ import annotations

import math

from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig
from mnemon.hypernet.init import Init

EMBEDDING = 32
"""Length of a task embedding."""
WIDTHS = (32, 24, 16, 12, 8, 6, 4)
"""Widths of the two feature layers that are tried, the widest first."""
ROWS = 33
"""Rows of a hypernetwork of default size."""
HELD_AT_ONCE = 512
"""Rows of earlier tasks in a step's penalty: all rows of about fifteen tasks, or a sample if there are more tasks."""


def hypernet_for(n_weights: int, compression: float | None = None) -> HypernetConfig:
    """Return the settings of a hypernetwork with at most compression times as many parameters as it generates.

    It uses nearly all of them, but at most about 33 for each weight. Without `compression`, it has about three
    thousand parameters more than it generates.
    """
    if compression is None:
        return _config(WIDTHS[0], -(-n_weights // ROWS))
    for width in WIDTHS:
        if chunk := _chunk(width, n_weights, compression * n_weights):
            return _config(width, chunk)
    raise UsageError(
        f"A hypernetwork of {compression:g} times {n_weights:,} weights is too small to be useful: set compression "
        f"to {_round_up(_least(n_weights) / n_weights):g} or more, or give hypernet=HypernetConfig(...)."
    )


def _config(width: int, chunk: int) -> HypernetConfig:
    return HypernetConfig(
        hidden=(width, width),
        embedding_size=EMBEDDING,
        chunk=chunk,
        chunk_embedding_size=_chunk_embedding(width),
        init=Init.XAVIER,
    )


def _chunk_embedding(width: int) -> int:
    return min(width, 16)


def _chunk(width: int, n_weights: int, budget: float) -> int | None:
    """Return the largest chunk c with which a hypernetwork of this width stays within its budget; None if none does.

    features + (n / c) * chunk embedding + (width + 1) * c = budget, a quadratic equation.
    """
    free, per_weight = budget - _features(width), width + 1
    inner = free * free - 4 * per_weight * n_weights * _chunk_embedding(width)
    if free <= 0 or inner < 0:
        return None
    chunk = min(n_weights, int((free + math.sqrt(inner)) / (2 * per_weight)))
    while chunk >= _least_chunk(width, n_weights):
        if _count(width, chunk, n_weights) <= budget:
            return chunk
        chunk -= 1  # the last row counts as a whole one, too
    return None


def _least_chunk(width: int, n_weights: int) -> int:
    """Return the smallest useful chunk: the fewer weights share a row, the more rows there are."""
    return min(2 * width, n_weights)


def _count(width: int, chunk: int, n_weights: int) -> int:
    """Return the number of parameters of a hypernetwork."""
    return _features(width) + -(-n_weights // chunk) * _chunk_embedding(width) + (width + 1) * chunk


def _features(width: int) -> int:
    return (EMBEDDING + _chunk_embedding(width) + 1) * width + (width + 1) * width


def _least(n_weights: int) -> int:
    """Return the number of parameters of the smallest useful hypernetwork."""
    width = WIDTHS[-1]
    best = math.sqrt(n_weights * _chunk_embedding(width) / (width + 1))
    chunk = min(n_weights, max(_least_chunk(width, n_weights), math.ceil(best)))
    # And a little more: the quadratic equation counts parts of rows.
    return _count(width, chunk, n_weights) + width + 1


def _round_up(number: float) -> float:
    """Return a number with two digits, rounded up."""
    unit = 10.0 ** (math.floor(math.log10(number)) - 1)
    return math.ceil(number / unit) * unit
