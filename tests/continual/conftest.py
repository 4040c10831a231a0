"""What the tests of ContinualModel share."""

from __future__ import annotations

import pytest
from clouds import two_days

import mnemon


@pytest.fixture
def learned() -> mnemon.ContinualModel:
    """A model of two tasks, with labels of their own."""
    return two_days()
