"""What the tests of ContinualModel share."""

from __future__ import annotations

import copy

import pytest
from clouds import two_days

import mnemon


@pytest.fixture(scope="session")
def learned_once() -> mnemon.ContinualModel:
    return two_days()


@pytest.fixture
def learned(learned_once) -> mnemon.ContinualModel:
    """A model of two tasks, with labels of their own."""
    return copy.deepcopy(learned_once)
