"""What the tests of ContinualModel share: most of them hold for both memories, and run with each."""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator

import pytest
from clouds import two_days

import mnemon

MEMORIES = ("generated", "exact")


def pytest_generate_tests(metafunc):
    """Run a test with each memory, unless its module or its mark names one: `only_memory`."""
    if "memory" in metafunc.fixturenames:
        mark = metafunc.definition.get_closest_marker("only_memory")
        metafunc.parametrize("memory", mark.args if mark else MEMORIES, indirect=True, scope="module")


@pytest.fixture(autouse=True, scope="module")
def memory(request) -> Iterator[str]:
    """The memory that models have by default in these tests."""
    defaults = mnemon.ContinualModel.__init__.__kwdefaults__
    usual, defaults["memory"] = defaults["memory"], request.param
    yield request.param
    defaults["memory"] = usual


@functools.cache
def learned_once(memory: str) -> mnemon.ContinualModel:
    return two_days(memory=memory)


@pytest.fixture
def learned(memory) -> mnemon.ContinualModel:
    """A model of two tasks, with labels of their own."""
    return copy.deepcopy(learned_once(memory))
