"""Initial values: Xavier to its bounds, hyperfan to the variances of a plain network."""

from __future__ import annotations

import math

import pytest
import torch
from torch import nn

from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.full import FullHypernet
from mnemon.hypernet.init import Init, new_embedding, variance_to_aim_for
from mnemon.hypernet.target import Slot, Target
from mnemon.models.mlp import MLP


def generated(hypernet, n: int = 300) -> torch.Tensor:
    """What comes out for so many new embeddings, [n, size]."""
    with torch.no_grad():
        return torch.stack([hypernet(new_embedding(hypernet.embedding_size)) for _ in range(n)])


@pytest.mark.parametrize("form", ["full", "chunked"])
def test_xavier_fills_every_matrix_to_its_bound_and_leaves_biases_at_0(form):
    config = HypernetConfig(form=form, hidden=(40, 30), embedding_size=20, chunk=100, chunk_embedding_size=50)
    hypernet = build_hypernet(config, Target(MLP((30,), (20,), 4, nn.ReLU)))
    matrices = [*(layer.weight for layer in hypernet.layers), hypernet.readout[:-1].T]
    biases = [*(layer.bias for layer in hypernet.layers), hypernet.readout[-1]]
    for matrix in matrices:
        bound = math.sqrt(6 / (matrix.shape[0] + matrix.shape[1]))
        assert 0.98 * bound < matrix.abs().max() <= bound
        assert matrix.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.05)
    assert not any(bias.any() for bias in biases)
    if isinstance(hypernet, ChunkedHypernet):
        assert hypernet.chunk_embeddings.std().item() == pytest.approx(1, rel=0.15)


@pytest.mark.parametrize("init", Init)
@pytest.mark.parametrize("form", ["full", "chunked"])
def test_initial_values_follow_from_torchs_seed(init, form):
    target = Target(MLP((5,), (4,), 2, nn.ReLU))
    config = HypernetConfig(form=form, embedding_size=3, chunk=9, chunk_embedding_size=2, init=init)
    states = []
    for seed in (1, 1, 2):
        torch.manual_seed(seed)
        states.append(build_hypernet(config, target).state_dict())
    assert all(torch.equal(states[0][key], states[1][key]) for key in states[0])
    assert any(not torch.equal(states[0][key], states[2][key]) for key in states[0])


@pytest.mark.parametrize(("activation", "gain"), [(nn.ReLU, 2.0), (nn.Tanh, 1.0)])
@pytest.mark.parametrize("hidden", [(), (32,), (48, 32)])
def test_a_full_hyperfan_generates_each_tensor_with_its_own_variance(activation, gain, hidden):
    target = Target(MLP((120,), (60, 30), 20, activation))
    config = HypernetConfig(form="full", hidden=hidden, embedding_size=32, init=Init.HYPERFAN)
    weights = generated(build_hypernet(config, target))
    for slot in target.slots:
        part = weights[:, slot.start : slot.stop]
        if len(slot.shape) == 1:
            assert not part.any(), f"{slot.name} is a bias"
        else:
            assert part.var() == pytest.approx(gain / slot.shape[1], rel=0.15)
            assert part.mean().abs() < 0.1 * part.std()


def test_batch_norm_scales_start_at_1_in_a_full_hyperfan():
    module = nn.Sequential(nn.Conv2d(2, 8, 3), nn.BatchNorm2d(8), nn.ReLU())
    target = Target(module)
    hypernet = build_hypernet(HypernetConfig(form="full", embedding_size=8, init=Init.HYPERFAN), target)
    parts = target.cut(generated(hypernet, 1)[0])
    assert torch.equal(parts["1.weight"], torch.ones(8))
    assert not parts["1.bias"].any()
    assert not parts["0.bias"].any()
    convolution = generated(hypernet)[:, : 8 * 2 * 9]
    assert convolution.var() == pytest.approx(2 / (2 * 9), rel=0.25)


def test_a_chunked_linear_hyperfan_generates_each_chunk_with_the_variance_wanted_there():
    target = Target(MLP((400,), (40, 100), 80, nn.ReLU))  # wanted: 2/400, 2/40, 2/100 in turn
    config = HypernetConfig(hidden=(), embedding_size=64, chunk=2000, chunk_embedding_size=1000, init=Init.HYPERFAN)
    hypernet = build_hypernet(config, target)
    wanted = torch.full((hypernet.n_rows * 2000,), math.nan)
    for slot in target.slots:
        if len(slot.shape) == 2:
            wanted[slot.start : slot.stop] = 2 / slot.shape[1]
    with torch.no_grad():
        chunks = torch.stack([hypernet.padded(new_embedding(64)).view(-1, 2000) for _ in range(100)])
    for found, value in zip(chunks.var(dim=(0, 2)), wanted.view(-1, 2000).nanmean(1), strict=True):
        assert float(found) == pytest.approx(float(value), rel=0.2)
    assert wanted.nan_to_num(0).max() / 2 * 400 == 10, "the chunks differ enough for the test to mean something"


@pytest.mark.parametrize("hidden", [(), (12,)])
def test_a_chunked_hyperfan_of_vectors_alone_stays_with_xavier(hidden):
    module = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4))
    config = HypernetConfig(hidden=hidden, embedding_size=3, chunk=3, chunk_embedding_size=2, init=Init.HYPERFAN)
    hypernet = build_hypernet(config, Target(module, ["1.*"]))
    assert all(parameter.isfinite().all() for parameter in hypernet.parameters())
    assert hypernet.readout[:-1].any()


def test_the_wanted_variance_goes_by_the_fan_in_and_vectors_have_none():
    rectified, smooth = nn.Sequential(nn.ReLU()), nn.Sequential(nn.Tanh())
    assert variance_to_aim_for(Slot("w", torch.Size([7, 5]), 0), rectified) == 2 / 5
    assert variance_to_aim_for(Slot("w", torch.Size([7, 5]), 0), smooth) == 1 / 5
    assert variance_to_aim_for(Slot("w", torch.Size([8, 4, 3, 3]), 0), smooth) == 1 / 36
    assert variance_to_aim_for(Slot("w", torch.Size([8]), 0), smooth) is None


def test_a_new_embedding_is_standard_normal():
    embedding = new_embedding(20000)
    assert embedding.mean() == pytest.approx(0, abs=0.03)
    assert embedding.std() == pytest.approx(1, rel=0.03)


def test_hyperfan_keeps_the_kind_of_the_hypernet():
    target = Target(MLP((5,), (4,), 2, nn.ReLU))
    assert isinstance(build_hypernet(HypernetConfig(form="full", init=Init.HYPERFAN), target), FullHypernet)
