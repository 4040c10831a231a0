"""The hypernetwork keeps to the size that is wanted, whatever the module's."""

from __future__ import annotations

import re

import pytest
import torch
from hypothesis import example, given
from hypothesis import strategies as st
from torch import nn

from mnemon.continual.auto_size import EMBEDDING, hypernet_for
from mnemon.errors import UsageError
from mnemon.hypernet import HYPERNETS
from mnemon.hypernet.target import Target

WEIGHTS = st.integers(1, 10_000_000)


def parameters(n_weights: int, compression: float | None) -> int:
    """Parameters of the hypernetwork, counted on the real one."""
    config = hypernet_for(n_weights, compression)
    assert config.embedding_size == EMBEDDING
    with torch.device("meta"):
        return HYPERNETS[config.form](config, Target(nn.ParameterList([torch.empty(n_weights)]))).count()


@given(WEIGHTS, st.floats(0.001, 50))
@example(1, 50.0)
@example(478_410, 0.01)
def test_it_keeps_to_its_budget_or_says_what_is_possible(n_weights, compression):
    try:
        found = parameters(n_weights, compression)
    except UsageError as error:
        wanted = float(re.search(r"set compression to ([\d.e+-]+) or more", str(error))[1])
        assert wanted > compression
        assert parameters(n_weights, wanted) <= wanted * n_weights
    else:
        assert found <= compression * n_weights


@given(st.integers(10_000, 10_000_000), st.floats(0.2, 20))
def test_it_uses_most_of_its_budget(n_weights, compression):
    assert parameters(n_weights, compression) >= 0.8 * compression * n_weights


@given(WEIGHTS)
def test_without_a_wish_it_has_about_as_many_parameters_as_it_generates(n_weights):
    found = parameters(n_weights, None)
    assert n_weights <= found <= 1.001 * n_weights + 3500


def test_one_that_is_too_small_is_refused_with_what_is_possible():
    with pytest.raises(UsageError) as error:
        hypernet_for(1000, 0.1)
    assert str(error.value) == (
        "A hypernetwork of 0.1 times 1,000 weights is too small to be useful: set compression to 0.46 or more, or "
        "give hypernet=HypernetConfig(...)."
    )
