"""A network as integers: its weights on a lattice around those of the original module, and its statistics.

    weights = start + step * point        (a step for each tensor)

A point does not depend on its prediction: predictions only shorten the code. All of this is integer
arithmetic, or a single rounding of a float, so a network is the same bit for bit on every machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mnemon.memory.buffers import UNIT
from mnemon.memory.code import LARGEST, CodeError, Numbers, decode, encode

LEAST_STEP, MOST_STEP = -160, 120
"""Indices of the smallest and the largest step, 2**-40 and 2**30; there are four to an octave."""
POOLED = 256
"""Tensors with at most this many weights share one model of the distribution of their points."""
FARTHEST = 40
"""Difference in octaves between two steps beyond which points of one do not predict points of the other."""

Floats = NDArray[np.floating]
Number = TypeVar("Number", np.int64, np.float64)


def step_size(index: int | Numbers) -> NDArray[np.float64]:
    """Return steps by their indices: 1, 1.25, 1.5, 1.75, 2, 2.5, …; all are sums of few powers of two."""
    octave, quarter = np.divmod(np.asarray(index, dtype=np.int64), 4)
    return np.ldexp(4.0 + quarter, octave.astype(np.int32) - 2)


def nearest_step(size: float) -> int:
    """Return the index of the largest step that is at most this size."""
    if not size > 0:
        return LEAST_STEP
    mantissa, exponent = np.frexp(size)  # 0.5 <= mantissa < 1
    index = 4 * (int(exponent) - 1) + int(8 * mantissa) - 4
    return min(max(index, LEAST_STEP), MOST_STEP)


@dataclass(frozen=True)
class Layout:
    """Where the tensors lie in the flat weights, and how many numbers the buffers have."""

    sizes: tuple[int, ...]
    """Weights of each tensor."""
    n_norms: int
    """Normalising layers with statistics of their own."""
    n_channels: int
    """Channels of all of them."""
    n_bytes: int
    """Bytes of all buffers, those of normalising layers included."""

    def lengths(self) -> list[int]:
        """Return how many numbers each array of a code has."""
        large = [size for size in self.sizes if size > POOLED]
        small = sum(size for size in self.sizes if size <= POOLED)
        return [1 + len(self.sizes) + self.n_norms, *large, small, self.n_channels, self.n_channels, self.n_bytes]

    def expanded(self, of_tensors: NDArray[Number]) -> NDArray[Number]:
        """Repeat one number per tensor for each of its weights."""
        return np.repeat(of_tensors, self.sizes)


@dataclass(frozen=True)
class Network:
    """A network as integers; `points` are those of the flat weights."""

    steps: Numbers
    """The index of each tensor's step."""
    points: Numbers
    moved: Numbers
    """For each normalising layer: 1 if its statistics have changed and are below, 0 if not."""
    variances: Numbers
    means: Numbers
    others: Numbers
    """Differences of the bytes of all other buffers to those of the original module."""
    exact: bool = False
    """Whether the statistics are stored exactly; they are then in `others`."""

    def weights(self, start: Floats, layout: Layout) -> Floats:
        """Return the flat weights."""
        steps = layout.expanded(step_size(self.steps))
        found: Floats = (start.astype(np.float64) + steps * self.points).astype(start.dtype)
        return found


def nothing(layout: Layout) -> Network:
    """Return the original module as a network: the prediction for a task without another one."""
    means = np.zeros(layout.n_channels, dtype=np.int64)
    steps = np.zeros(len(layout.sizes), dtype=np.int64)
    points = np.zeros(sum(layout.sizes), dtype=np.int64)
    moved = np.zeros(layout.n_norms, dtype=np.int64)
    return Network(steps, points, moved, means + UNIT, means, np.zeros(layout.n_bytes, dtype=np.int64))


def nearest_points(weights: Floats, start: Floats, steps: Numbers, layout: Layout) -> Numbers:
    """Return the lattice points nearest to some weights; points too far away to be coded are clipped."""
    sizes = layout.expanded(step_size(steps))
    points = np.rint((weights.astype(np.float64) - start.astype(np.float64)) / sizes)
    return np.clip(points, -LARGEST // 2, LARGEST // 2).astype(np.int64)


def rescaled(points: Numbers, before: Numbers, after: Numbers) -> Numbers:
    """Return points on one lattice as the nearest ones on another, exactly; lattices are told by their steps."""
    (octave, quarter), (new_octave, new_quarter) = np.divmod(before, 4), np.divmod(after, 4)
    shift = octave - new_octave
    up, down = np.clip(shift, 0, FARTHEST // 2), np.clip(-shift, 0, FARTHEST // 2)
    numerator, denominator = points * (4 + quarter) << up, (4 + new_quarter) << down
    found = (2 * numerator + denominator) // (2 * denominator)
    found = np.where(np.abs(shift) > FARTHEST // 2, 0, found)
    return np.clip(found, -LARGEST // 2, LARGEST // 2)


# Codes


def encode_network(network: Network, prediction: Network, layout: Layout) -> bytes:
    """Return the code of a network, given a prediction of it."""
    predicted = rescaled(prediction.points, layout.expanded(prediction.steps), layout.expanded(network.steps))
    return encode(
        [
            np.concatenate([[int(network.exact)], network.steps - prediction.steps, network.moved]),
            *_pooled(network.points - predicted, layout),
            network.variances - prediction.variances,
            network.means - prediction.means,
            _as_signed(network.others - prediction.others),
        ]
    )


def decode_network(code: bytes, prediction: Network, layout: Layout) -> Network:
    """Return the network of a code, given the same prediction; raises CodeError."""
    first, *weights, variances, means, others = decode(code, layout.lengths())
    (exact,), steps, moved = np.split(first, [1, 1 + len(layout.sizes)])
    steps = steps + prediction.steps
    if exact not in (0, 1) or not np.isin(moved, (0, 1)).all():
        raise CodeError("A network's code is damaged: a mark in it is none.")
    if len(steps) and not (steps.min() >= LEAST_STEP and steps.max() <= MOST_STEP):
        raise CodeError("A network's code is damaged: a step in it is too small or too large.")
    predicted = rescaled(prediction.points, layout.expanded(prediction.steps), layout.expanded(steps))
    return Network(
        steps,
        _unpooled(weights, layout) + predicted,
        moved,
        variances + prediction.variances,
        means + prediction.means,
        _as_signed(others + prediction.others),
        bool(exact),
    )


def _as_signed(differences: Numbers) -> Numbers:
    """Return differences of bytes modulo 256, the smaller way round."""
    return (differences + 128) % 256 - 128


def _pooled(points: Numbers, layout: Layout) -> list[Numbers]:
    """Return the points of each large tensor, and those of all small ones together."""
    parts = np.split(points, np.cumsum(layout.sizes)[:-1])
    small = [part for part in parts if len(part) <= POOLED]
    return [*(part for part in parts if len(part) > POOLED), np.concatenate(small) if small else points[:0]]


def _unpooled(arrays: Sequence[Numbers], layout: Layout) -> Numbers:
    *large, small = arrays
    parts, each, at = [], iter(large), 0
    for size in layout.sizes:
        if size > POOLED:
            parts.append(next(each))
        else:
            parts.append(small[at : at + size])
            at += size
    return np.concatenate(parts)
