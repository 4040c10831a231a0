"""An entropy code for integers that are mostly small.

Numbers are coded by their *bucket*: 0, ±1, …, ±7, then ranges whose size doubles every second time. The position
within a bucket is written without compression. One byte per bucket gives its probability: the share of numbers in
this bucket, among those that are in it or in a later one. All probabilities are computed from these bytes with
integer arithmetic, so a code means the same on every machine.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np
from constriction import stream
from numpy.typing import NDArray

from mnemon.errors import CheckpointError

Categorical, Uniform = stream.model.Categorical, stream.model.Uniform
RangeDecoder, RangeEncoder = stream.queue.RangeDecoder, stream.queue.RangeEncoder
Numbers = NDArray[np.int64]
EXACT = 8
"""Magnitudes below this have their own bucket."""
MOST_BUCKETS = 50
"""Maximum number of buckets of a code."""
ONE = 1 << 40
"""The probability 1, as an integer."""


class CodeError(CheckpointError):
    """A damaged code, or bytes that are not a code."""


def encode(arrays: Sequence[Numbers]) -> bytes:
    """Return the code of some arrays of integers; the lengths of the arrays are not in the code."""
    tables, coder = bytearray(), RangeEncoder()
    for numbers in arrays:
        if not len(numbers):
            continue
        magnitudes = np.abs(numbers)
        if int(magnitudes.max()) > LARGEST:
            raise ValueError(f"{int(magnitudes.max())} is too large to be coded: the maximum is {LARGEST}.")
        buckets = np.searchsorted(_LOWS, magnitudes, side="right") - 1
        table = _table(buckets)
        tables += table
        _encode_numbers(coder, numbers, magnitudes, buckets, table)
    return bytes(tables) + coder.get_compressed().astype("<u4").tobytes()


def decode(code: bytes, lengths: Sequence[int]) -> list[Numbers]:
    """Return the arrays of a code, given their lengths; raises CodeError if it is damaged.

    Time and memory are bounded by the lengths, whatever the bytes are.
    """
    tables, at = [], 0
    for length in lengths:
        table = _read_table(code, at) if length else b""
        tables.append(table)
        at += len(table)
    if (len(code) - at) % 4:
        raise CodeError("A network's code is damaged: its length is not possible.")
    words = np.frombuffer(code, dtype="<u4", offset=at).astype(np.uint32)
    try:
        coder = RangeDecoder(words)
        found = [_decode_numbers(coder, table, n) for table, n in zip(tables, lengths, strict=True)]
        whole = coder.maybe_exhausted()
    except (AssertionError, ValueError) as error:  # the errors of the coder for words that it cannot have written
        raise CodeError("A network's code is damaged: it cannot be decoded.") from error
    if not whole:
        raise CodeError("A network's code is damaged: it is longer than the network needs.")
    return found


# Buckets


def _lows() -> Numbers:
    """Return the smallest magnitude in each bucket, and one more."""
    octaves = [half << shift for shift in range((MOST_BUCKETS - EXACT) // 2 + 1) for half in (8, 12)]
    return np.array([*range(EXACT), *octaves], dtype=np.int64)[: MOST_BUCKETS + 1]


_LOWS = _lows()
_WIDTHS = np.diff(_LOWS)
LARGEST = int(_LOWS[MOST_BUCKETS]) - 1
"""The largest magnitude that can be coded."""


def _table(buckets: Numbers) -> bytes:
    """Return the number of buckets, and for each but the last its share among the numbers not in earlier buckets."""
    counts = np.bincount(buckets)
    reaching = counts[::-1].cumsum()[::-1]
    shares = (256 * counts[:-1]) // reaching[:-1]
    return bytes([len(counts), *np.clip(shares, 0, 255).tolist()])


def _read_table(code: bytes, at: int) -> bytes:
    n = code[at] if at < len(code) else 0
    table = code[at : at + n]
    if not 1 <= n <= MOST_BUCKETS or len(table) < n:
        raise CodeError("A network's code is damaged: its table of frequencies is missing.")
    return table


@functools.lru_cache(maxsize=1024)
def _model(table: bytes) -> Any:
    """Return the probabilities of -last, …, -1, 0, 1, …, last, as integer multiples of 2 ** -40."""
    rest, sides = ONE, []
    for share in table[1:]:
        part = ((rest * (2 * share + 1)) >> 10) << 1  # even: two signs have a half each
        sides.append(part)
        rest -= part
    sides.append(rest)
    halves = [part // 2 for part in sides[1:]]
    centre = ONE - 2 * sum(halves)
    return Categorical(np.array([*halves[::-1], centre, *halves], dtype=np.float64), perfect=False)


# Numbers


def _encode_numbers(coder: Any, numbers: Numbers, magnitudes: Numbers, buckets: Numbers, table: bytes) -> None:
    last = len(table) - 1
    if not last:
        return
    coder.encode((last + np.sign(numbers) * buckets).astype(np.int32), _model(table))
    for bucket in range(EXACT, last + 1):
        within = magnitudes[buckets == bucket] - _LOWS[bucket]
        if len(within):
            coder.encode(within.astype(np.int32), Uniform(int(_WIDTHS[bucket])))


def _decode_numbers(coder: Any, table: bytes, n: int) -> Numbers:
    last = len(table) - 1
    if last < 1:
        return np.zeros(n, dtype=np.int64)
    signed = coder.decode(_model(table), n).astype(np.int64) - last
    buckets = np.abs(signed)
    magnitudes = _LOWS[buckets]
    for bucket in range(EXACT, last + 1):
        where = np.flatnonzero(buckets == bucket)
        if len(where):
            magnitudes[where] += coder.decode(Uniform(int(_WIDTHS[bucket])), len(where))
    found: Numbers = np.sign(signed) * magnitudes
    return found
