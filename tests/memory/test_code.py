"""Whole numbers come back from their code, and a damaged code is said to be one."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mnemon.memory.code import LARGEST, CodeError, decode, encode

ARRAYS = st.lists(
    st.lists(st.one_of(st.integers(-3, 3), st.integers(-300, 300), st.integers(-LARGEST, LARGEST)), max_size=40),
    max_size=4,
)


@given(ARRAYS)
@settings(max_examples=100)
def test_numbers_come_back(values):
    arrays = [np.array(each, dtype=np.int64) for each in values]
    found = decode(encode(arrays), [len(each) for each in arrays])
    assert [each.tolist() for each in found] == values


@pytest.mark.parametrize("spread", [0.3, 1, 5, 80])
def test_a_code_is_hardly_longer_than_the_entropy(spread):
    numbers = np.rint(np.random.default_rng(0).normal(0, spread, 20_000)).astype(np.int64)
    _, counts = np.unique(numbers, return_counts=True)
    entropy = -(counts * np.log2(counts / len(numbers))).sum() / 8
    assert len(encode([numbers])) < 1.03 * entropy + 40


def test_numbers_too_large_are_refused():
    with pytest.raises(ValueError, match="16777216 is too large to be coded: the maximum is 16777215"):
        encode([np.array([LARGEST + 1])])


def test_the_bytes_of_a_code_are_the_same_for_ever():
    numbers = np.array([0, 0, 1, -1, 0, 2, 0, 0, -5, 0, 100, 0, 0, 1, 0, 0], dtype=np.int64)
    assert encode([numbers, numbers[:3]]).hex() == "10a0805500008000000000000000000002aa163517a107e0f6a9"


def damaged(code: bytes, chance: np.random.Generator) -> bytes:
    """A code with a byte changed, cut short, or drawn anew."""
    kind = chance.integers(3)
    if kind == 0:
        at = int(chance.integers(len(code)))
        return code[:at] + bytes([int(chance.integers(256))]) + code[at + 1 :]
    if kind == 1:
        return code[: int(chance.integers(len(code)))]
    return chance.integers(0, 256, int(chance.integers(2 * len(code))), dtype=np.uint8).tobytes()


def test_a_damaged_code_ends_in_our_error_or_in_numbers():
    chance = np.random.default_rng(1)
    arrays = [np.rint(chance.normal(0, spread, 200)).astype(np.int64) for spread in (0.5, 4, 1000)]
    code, refused = encode(arrays), 0
    for _ in range(500):
        try:
            found = decode(damaged(code, chance), [200, 200, 200])
            assert all(len(each) == 200 and np.abs(each).max() <= LARGEST for each in found)
        except CodeError:
            refused += 1
    assert refused > 300
