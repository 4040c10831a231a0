"""Generated weights around the network's own initial values, and how embeddings start."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from mnemon.errors import UsageError
from mnemon.hypernet import HypernetConfig
from mnemon.hypernet.init import ChunkInit, Init
from mnemon.memory.config import MemoryConfig, Start, Unit
from mnemon.memory.networks import NetworkMemory
from mnemon.optimizer import OptimizerConfig

SMALL = HypernetConfig(hidden=(), chunk=20, embedding_size=3, chunk_embedding_size=4)


def memory_of(module: nn.Module, **settings) -> NetworkMemory:
    memory = NetworkMemory(module, MemoryConfig(**{"hypernet": SMALL, **settings}), OptimizerConfig())
    memory.add_task()
    return memory


@pytest.fixture
def module() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(5, 7), nn.BatchNorm1d(7), nn.ReLU(), nn.Linear(7, 2))


@pytest.mark.parametrize("unit", Unit)
def test_a_network_starts_from_its_own_initial_values(module, unit):
    own = {name: value.detach().clone() for name, value in module.named_parameters()}
    found = memory_of(module, start=Start.OWN, unit=unit).network_weights(0)
    for name, value in own.items():
        assert torch.equal(found[name], value), name


def test_what_is_generated_is_added_in_the_unit_of_each_layer(module):
    memory = memory_of(module, start=Start.OWN, unit=Unit.LAYER)
    nn.init.normal_(memory.hypernet.readout)
    generated, found = memory.target.cut(memory.weights(0)), memory.network_weights(0)
    deviations = {name: float(p.detach().std(correction=0)) for name, p in module.named_parameters()}
    mean = sum(d for d in deviations.values() if d > 0) / sum(d > 0 for d in deviations.values())
    for name, value in module.named_parameters():
        torch.testing.assert_close(found[name], value + (deviations[name] or mean) * generated[name])


def test_without_a_unit_it_is_added_as_it_is(module):
    memory = memory_of(module, start=Start.OWN)
    nn.init.normal_(memory.hypernet.readout)
    generated, found = memory.target.cut(memory.weights(0)), memory.network_weights(0)
    for name, value in module.named_parameters():
        torch.testing.assert_close(found[name], value + generated[name])


def test_running_a_network_generates_the_same_weights_in_one_product(module):
    memory = memory_of(module, start=Start.OWN)
    nn.init.normal_(memory.hypernet.readout)
    inputs = torch.randn(3, 5)
    at_once = memory.run(0, inputs, training=False)
    torch.testing.assert_close(at_once, memory.run(0, inputs, training=False, weights=memory.weights(0)))


def test_initial_values_are_not_counted_but_kept_for_a_restart(module):
    around, whole = memory_of(module, start=Start.OWN), memory_of(module)
    assert around.numel_shared == whole.numel_shared
    assert around.numel_per_task == whole.numel_per_task
    assert around.state_dict().keys() - whole.state_dict().keys() == {"own"}
    assert not around.transient("own")


@pytest.mark.parametrize(("n_chunks", "length"), [(6, 8), (6, 6), (30, 8)])
def test_chunk_embeddings_start_orthogonal_or_nearly_so(n_chunks, length):
    module = nn.Linear(n_chunks * 20 // 2 - 1, 2, bias=False)
    config = HypernetConfig(hidden=(), chunk=20, chunk_embedding_size=length, chunk_init=ChunkInit.ORTHOGONAL)
    embeddings = memory_of(module, hypernet=config).hypernet.chunk_embeddings.detach()
    assert embeddings.shape == (n_chunks, length)
    products = embeddings @ embeddings.T
    torch.testing.assert_close(products.diagonal().mean(), torch.tensor(1.0))
    if n_chunks <= length:
        torch.testing.assert_close(products, torch.eye(n_chunks), atol=1e-5, rtol=0)
    else:  # as nearly as can be: the squared products of all pairs have their least sum
        torch.testing.assert_close(products.square().sum(), torch.tensor(n_chunks**2 / length))


def test_new_embeddings_have_the_chosen_size():
    torch.manual_seed(0)
    config = HypernetConfig(hidden=(), chunk=20, embedding_size=2000)
    memory = memory_of(nn.Linear(3, 3), hypernet=config, embedding_scale=0.1)
    assert float(memory.embeddings[0].detach().std()) == pytest.approx(0.1, rel=0.1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"embedding_scale": 0.0}, r"^method\.embedding_scale must be above 0, not 0\.0\.$"),
        ({"unit": Unit.LAYER}, r"^method\.unit=layer needs method\.start=own\.$"),
    ],
)
def test_settings_that_do_not_go_together_are_refused(settings, message):
    with pytest.raises(UsageError, match=message):
        MemoryConfig(**settings)


def test_orthogonal_chunks_go_with_xavier_alone():
    message = r"^hypernet\.chunk_init=orthogonal needs hypernet\.init=xavier, not hyperfan\.$"
    with pytest.raises(UsageError, match=message):
        HypernetConfig(chunk_init=ChunkInit.ORTHOGONAL, init=Init.HYPERFAN)
