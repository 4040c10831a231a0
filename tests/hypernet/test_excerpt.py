"""A network on an excerpt of its weights is the network on all of them, cut to the same outputs."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.excerpt import excerpt
from mnemon.hypernet.target import Target
from mnemon.models.mlp import MLP


def pair(hidden: int, outputs: int, chunk: int, form: str = "chunked"):
    target = Target(MLP((4,), (hidden,), outputs, nn.ReLU))
    return target, build_hypernet(HypernetConfig(form, (6,), "elu", 3, chunk, 2), target)


@given(
    hidden=st.integers(1, 6),
    outputs=st.integers(20, 40),
    chunk=st.integers(1, 12),
    first=st.integers(0, 15),
    n=st.integers(1, 5),
)
@settings(max_examples=60)
def test_an_excerpt_gives_the_same_outputs_and_gradients(hidden, outputs, chunk, first, n):
    torch.manual_seed(hidden + outputs + chunk)
    target, hypernet = (part.double() for part in pair(hidden, outputs, chunk))
    own = (first, first + n)
    found = excerpt(target, hypernet, own)
    if found is None:
        return
    assert len(found.row) < hypernet.n_rows
    embedding = torch.randn(3, dtype=torch.float64, requires_grad=True)
    inputs = torch.randn(5, 4, dtype=torch.float64)
    parameters = [*hypernet.parameters(), embedding]
    whole = target(hypernet.padded(embedding), inputs, outputs=own)
    part = target(hypernet.excerpt(embedding, found.row), inputs, slots=found.slots)
    torch.testing.assert_close(part, whole, rtol=1e-12, atol=1e-12)
    wanted = torch.autograd.grad(whole.square().sum(), parameters)
    for one, other in zip(torch.autograd.grad(part.square().sum(), parameters), wanted, strict=True):
        torch.testing.assert_close(one, other, rtol=1e-10, atol=1e-12)


def test_only_the_rows_of_the_body_and_of_the_own_head_are_in_it():
    target, hypernet = pair(hidden=5, outputs=40, chunk=5)  # 25 weights, 200 of the last layer, 40 of its bias
    found = excerpt(target, hypernet, (10, 12))
    assert found.row.tolist() == [*range(5), 15, 16, 47]


@pytest.mark.parametrize(("form", "outputs", "chunk"), [("chunked", 2, 5), ("structured", 40, 5), ("full", 40, 5)])
def test_where_it_spares_little_or_rows_are_not_full_there_is_none(form, outputs, chunk):
    target, hypernet = pair(hidden=5, outputs=outputs, chunk=chunk, form=form)
    assert excerpt(target, hypernet, (0, 2)) is None
