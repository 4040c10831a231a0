"""What holds for every hypernetwork in the registry."""

from __future__ import annotations

import copy
import re

import pytest
import torch
from torch import nn

from mnemon.errors import UsageError
from mnemon.hypernet import HYPERNETS, HypernetConfig, base, build_hypernet, least_count
from mnemon.hypernet.base import AbstractHypernet, with_one
from mnemon.hypernet.init import Init
from mnemon.hypernet.target import Target
from mnemon.memory.penalty import Anchors, exact_penalty, plain_penalty
from mnemon.models.mlp import ACTIVATIONS, MLP


def small(form: str, **settings) -> HypernetConfig:
    return HypernetConfig(form=form, **{"hidden": (6,), "embedding_size": 3, "chunk": 10, **settings})


@pytest.fixture(params=HYPERNETS)
def form(request) -> str:
    return request.param


@pytest.fixture
def target(double) -> Target:
    return Target(MLP((4,), (5,), 2, nn.ReLU))


@pytest.fixture
def hypernet(form, target) -> AbstractHypernet:
    return build_hypernet(small(form), target)


def test_there_are_three_hypernets():
    assert list(HYPERNETS) == ["full", "chunked", "structured"]


@pytest.mark.parametrize("hidden", [(), (6,), (6, 5)])
@pytest.mark.parametrize("activation", ACTIVATIONS)
@pytest.mark.parametrize("init", Init)
def test_it_generates_all_weights_of_the_target(form, hidden, activation, init, target):
    hypernet = build_hypernet(small(form, hidden=hidden, activation=activation, init=init), target)
    weights = hypernet(torch.randn(3))
    assert weights.shape == (target.size,)
    assert weights.isfinite().all()
    assert target(weights, torch.randn(7, 4)).shape == (7, 2)
    assert hypernet.width == hypernet.readout.shape[0] - 1
    assert hypernet.count() == sum(p.numel() for p in hypernet.parameters())


def test_another_embedding_gives_other_weights_and_the_same_one_the_same(hypernet):
    one, other = torch.randn(3), torch.randn(3)
    assert torch.equal(hypernet(one), hypernet(one))
    assert not torch.allclose(hypernet(one), hypernet(other))


def test_every_parameter_and_the_embedding_get_a_gradient(hypernet):
    embedding = torch.randn(3, requires_grad=True)
    hypernet(embedding).pow(2).sum().backward()
    assert embedding.grad.any()
    for name, parameter in hypernet.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.any(), name


def test_weights_are_a_linear_readout_of_the_features_of_rows(hypernet):
    embedding = torch.randn(3)
    h = hypernet.grid_features(embedding[None])
    assert h.shape == (hypernet.n_rows, hypernet.width)
    by_hand = h @ hypernet.readout[:-1] + hypernet.readout[-1]
    torch.testing.assert_close(hypernet.read(h), by_hand, rtol=1e-12, atol=1e-12)
    torch.testing.assert_close(hypernet(embedding), by_hand.flatten()[hypernet.places()], rtol=1e-12, atol=1e-12)
    assert torch.equal(with_one(h)[:, -1], torch.ones(len(h)))


@pytest.mark.parametrize("hidden", [(), (6,), (8, 5)])
@pytest.mark.parametrize("many", [1, 1000])
def test_all_rows_of_some_tasks_are_the_rows_one_by_one(form, hidden, many, target, monkeypatch):
    monkeypatch.setattr(base, "MANY", many)
    hypernet = build_hypernet(small(form, hidden=hidden), target)
    embeddings = torch.randn(4, 3)
    grid = hypernet.grid_features(embeddings)
    row = torch.arange(hypernet.n_rows).repeat_interleave(4)
    one_by_one = hypernet.features(embeddings.repeat(hypernet.n_rows, 1), row)
    torch.testing.assert_close(grid[:, : hypernet.width], one_by_one, rtol=1e-12, atol=1e-12)
    assert grid.shape[1] == (8 if many == 1 and hidden else hypernet.width)


def test_a_state_put_away_and_loaded_generates_the_same(form, target, hypernet):
    other = build_hypernet(small(form), target)
    embedding = torch.randn(3)
    assert not torch.equal(other(embedding), hypernet(embedding))
    other.load_state_dict(copy.deepcopy(hypernet.state_dict()))
    assert torch.equal(other(embedding), hypernet(embedding))


def test_its_penalty_is_exact(hypernet):
    moved = copy.deepcopy(hypernet)
    with torch.no_grad():
        for parameter in moved.parameters():
            parameter.add_(0.1 * torch.randn_like(parameter))
    anchors = Anchors(hypernet, torch.randn(9, 3))
    exact, _ = exact_penalty(moved, anchors, anchors.everything())
    plain = plain_penalty(moved, anchors, anchors.everything()).detach()
    torch.testing.assert_close(exact, plain, rtol=1e-12, atol=0)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            {"form": "chunky"},
            "Unknown hypernet form 'chunky'. Did you mean 'chunked'? Choose one of: full, chunked, structured.",
        ),
        ({"activation": "gelu"}, "Unknown activation 'gelu'. Did you mean 'elu'?"),
        ({"embedding_size": 0}, "hypernet.embedding_size must be at least 1, not 0."),
        ({"chunk": -3}, "hypernet.chunk must be at least 1, not -3."),
        ({"chunk_embedding_size": 0}, "hypernet.chunk_embedding_size must be at least 1, not 0."),
    ],
)
def test_wrong_settings_are_named(settings, message):
    with pytest.raises(UsageError, match=re.escape(message)):
        HypernetConfig(**settings)


def test_a_width_of_0_is_named(form, target):
    message = "hypernet.hidden must hold widths of at least 1, not [5, 0]."
    with pytest.raises(UsageError, match=re.escape(message)):
        build_hypernet(small(form, hidden=(5, 0)), target)


@pytest.mark.parametrize("hidden", [(), (5,), (5, 3)])
def test_the_least_count_of_a_hypernetwork_is_what_it_has_or_a_little_less(form, target, hidden):
    config = small(form, hidden=hidden)
    least, count = least_count(config, target.size), build_hypernet(config, target).count()
    assert least <= count
    assert least == count or form == "structured"
