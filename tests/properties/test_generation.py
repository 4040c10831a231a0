"""What is generated has exactly the size of the target, and is cut into its tensors and back."""

from __future__ import annotations

import itertools

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from mnemon.hypernet.base import AbstractHypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.full import FullHypernet
from mnemon.hypernet.target import Target


def filled(hypernet: AbstractHypernet) -> AbstractHypernet:
    for parameter in hypernet.parameters():
        nn.init.normal_(parameter)
    return hypernet.double()


@given(
    size=st.integers(1, 60),
    chunk=st.integers(1, 70),
    embedding=st.integers(1, 4),
    chunk_embedding=st.integers(1, 4),
    hidden=st.lists(st.integers(1, 5), max_size=2),
)
def test_chunked_generates_exactly_size_weights(size, chunk, embedding, chunk_embedding, hidden):
    hypernet = filled(ChunkedHypernet(size, embedding, hidden, nn.Tanh, chunk, chunk_embedding))
    e = torch.randn(embedding, dtype=torch.float64)
    weights = hypernet(e)
    assert weights.shape == (size,)
    assert hypernet.padded(e).shape == (-(-size // chunk) * chunk,)
    assert torch.equal(hypernet.padded(e)[:size], weights)
    # Chunk by chunk, as the paper writes it: a row [e ; c_i] through one network, the pieces joined.
    pieces = []
    for c in hypernet.chunk_embeddings:
        h = torch.cat([e, c])
        for layer in hypernet.layers:
            h = torch.tanh(layer.weight @ h + layer.bias)
        pieces.append(h @ hypernet.readout[:-1] + hypernet.readout[-1])
    torch.testing.assert_close(weights, torch.cat(pieces)[:size], rtol=1e-12, atol=1e-12)


@given(size=st.integers(1, 60), embedding=st.integers(1, 4), hidden=st.lists(st.integers(1, 5), max_size=2))
def test_full_generates_exactly_size_weights_from_one_row(size, embedding, hidden):
    hypernet = filled(FullHypernet(size, embedding, hidden, nn.Tanh))
    e = torch.randn(embedding, dtype=torch.float64)
    widths = [embedding, *hidden]
    by_hand = sum(a * b + b for a, b in itertools.pairwise(widths)) + (widths[-1] + 1) * size
    assert hypernet(e).shape == (size,)
    assert hypernet.n_rows == 1
    assert hypernet.count() == by_hand


class Holder(nn.Module):
    """Parameters of any shapes, and nothing else."""

    def __init__(self, shapes: list[tuple[int, ...]]):
        super().__init__()
        self.tensors = nn.ParameterList(torch.randn(shape, dtype=torch.float64) for shape in shapes)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x


SHAPES = st.lists(st.lists(st.integers(1, 4), max_size=3).map(tuple), min_size=1, max_size=5)


@given(shapes=SHAPES, tail=st.integers(0, 5))
def test_cutting_and_joining_again_gives_the_same_weights(shapes, tail):
    target = Target(Holder(shapes))
    weights = torch.randn(target.size + tail, dtype=torch.float64)
    parts = target.cut(weights)
    assert list(parts) == [name for name, _ in target.module.named_parameters()]
    assert [tuple(part.shape) for part in parts.values()] == shapes
    assert torch.equal(torch.cat([part.flatten() for part in parts.values()]), weights[: target.size])
    own = target.cut(target.own_weights())
    assert all(torch.equal(own[name], parameter) for name, parameter in target.module.named_parameters())


@given(shapes=SHAPES, tail=st.integers(0, 5), unused=st.integers(0, 4))
def test_the_gradient_of_a_cut_is_that_of_split_also_the_second(shapes, tail, unused):
    target = Target(Holder(shapes))
    weights = torch.randn(target.size + tail, dtype=torch.float64, requires_grad=True)
    sizes = [slot.stop - slot.start for slot in target.slots]

    def value(parts: list[torch.Tensor]) -> torch.Tensor:
        """A number in which parts meet each other, and which leaves one of them out (if there are several)."""
        used = [p.flatten() for i, p in enumerate(parts) if i != unused or len(parts) == 1]
        return sum((p.pow(3).sum() for p in used), start=torch.zeros(())) * torch.cat(used).sin().sum()

    def derivatives(parts: list[torch.Tensor]) -> tuple[torch.Tensor, ...]:
        (plain,) = torch.autograd.grad(value(parts), weights, retain_graph=True)
        (first,) = torch.autograd.grad(value(parts), weights, create_graph=True)
        (second,) = torch.autograd.grad((first * direction).sum(), weights)
        return plain, first.detach(), second

    direction = torch.randn(len(weights), dtype=torch.float64)
    mine = derivatives(list(target.cut(weights).values()))
    theirs = derivatives(list(weights.split([*sizes, tail])[:-1]))
    for found, wanted in zip(mine, theirs, strict=True):
        torch.testing.assert_close(found, wanted, rtol=1e-12, atol=1e-12)
    assert not mine[0][target.size :].any()


@given(shapes=SHAPES)
@settings(max_examples=10)
def test_gradgradcheck_passes_for_a_cut(shapes):
    target = Target(Holder(shapes[:2]))
    weights = torch.randn(target.size, dtype=torch.float64, requires_grad=True)

    def value(w: torch.Tensor) -> torch.Tensor:
        return torch.stack([part.pow(2).sum() for part in target.cut(w).values()]).prod()

    assert torch.autograd.gradcheck(value, weights)
    assert torch.autograd.gradgradcheck(value, weights)
