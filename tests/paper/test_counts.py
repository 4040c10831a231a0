"""The parameter counts of the paper, to the digit."""

from __future__ import annotations

from typing import NamedTuple

import pytest
import torch
from torch import nn

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.target import Target
from mnemon.learners.hypernet import HypernetLearner
from mnemon.models import TargetConfig, build_network
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import Problem
from mnemon.replay.vae import VAE


class Row(NamedTuple):
    """A row of the table: the networks, and what they must count."""

    inputs: int
    hidden: tuple[int, ...]
    outputs: int
    hypernet: HypernetConfig
    target_size: int
    chunks: int
    hypernet_size: int


SPLIT = HypernetConfig(hidden=(10, 10), chunk=42000, embedding_size=96, chunk_embedding_size=96)
P10 = HypernetConfig(hidden=(25, 25), chunk=78000, embedding_size=24, chunk_embedding_size=8)
P100 = HypernetConfig(hidden=(200, 250, 350), chunk=7500, embedding_size=128, chunk_embedding_size=12)
P10_SMALL = HypernetConfig(hidden=(100, 75, 50), chunk=2000, embedding_size=64, chunk_embedding_size=12)
SPLIT_VAE = HypernetConfig(hidden=(10, 10), chunk=50000, embedding_size=96, chunk_embedding_size=96)
P10_VAE = HypernetConfig(hidden=(25, 25), chunk=85000, embedding_size=24, chunk_embedding_size=8)
TOY = HypernetConfig(form="full", hidden=(10, 10), activation="sigmoid", embedding_size=2)

TABLE = {
    # The paper gives no count for the toy: 2*10+10 + 10*10+10 + 10*141+141 by hand.
    "toy": Row(1, (10, 10), 1, TOY, 141, 1, 1691),
    "split CL1": Row(784, (400, 400), 10, SPLIT, 478410, 12, 465192),
    "split CL2": Row(784, (400, 400), 2, SPLIT, 475202, 12, 465192),
    "P10 CL1": Row(1024, (1000, 1000), 100, P10, 2126100, 28, 2029699),
    "P10 CL2": Row(1024, (1000, 1000), 10, P10, 2036010, 27, 2029691),
    "P100 CL1": Row(1024, (1000, 1000), 1000, P100, 3027000, 404, 2803648),
    "P10 small": Row(1024, (100, 100), 100, P10_SMALL, 122700, 62, 121819),
    "split VAE": Row(200, (400, 400), 784, SPLIT_VAE, 555184, 12, 553192),
    "P10 VAE": Row(200, (1000, 1000), 1024, P10_VAE, 2227024, 27, 2211691),
}


@pytest.mark.parametrize("name", TABLE)
def test_networks_count_as_in_the_paper(name):
    row = TABLE[name]
    with torch.device("meta"):
        target = Target(build_network(TargetConfig(hidden=row.hidden), (row.inputs,), row.outputs))
        hypernet = build_hypernet(row.hypernet, target)
    assert (target.size, hypernet.n_rows, hypernet.count()) == (row.target_size, row.chunks, row.hypernet_size)


@pytest.mark.parametrize(
    ("size", "embedding", "chunk_embedding", "hidden", "chunk", "chunks", "count"),
    [
        pytest.param(468540, 32, 32, (), 7000, 67, 457144, id="ResNet-32"),
        pytest.param(1276508, 48, 80, (100, 150, 200), 5500, 233, 1182390, id="ZenkeNet"),
    ],
)
def test_hypernets_of_the_cifar_networks_count_as_in_the_paper(
    size, embedding, chunk_embedding, hidden, chunk, chunks, count
):
    hypernet = ChunkedHypernet(size, embedding, hidden, nn.ReLU, chunk, chunk_embedding)
    assert (hypernet.n_rows, hypernet.count()) == (chunks, count)


@pytest.mark.parametrize(
    ("name", "n_tasks", "total"), [("split VAE", 5, 553576), ("P10 VAE", 10, 2211907)], ids=["split", "P10"]
)
def test_a_vae_keeps_an_embedding_for_every_task_but_the_last(name, n_tasks, total):
    row = TABLE[name]
    # The decoder's inputs are 100 latent numbers and a condition of 100; the encoder does not count here.
    config = VAE.Config(encoder=(1,), decoder=row.hidden, latent=100, condition_size=100, hypernet=row.hypernet)
    target, pixels, scenario = TargetConfig(hidden=(1,)), (row.outputs,), Scenario.CL3
    problem = Problem(TaskKind.CLASSIFICATION, n_tasks, pixels, 2, target, OptimizerConfig(), scenario=scenario)
    with torch.device("meta"):
        memory = VAE(config, problem).generator.memory
        for _ in range(n_tasks):
            memory.add_task()
    assert (memory.target.size, memory.hypernet.n_rows, memory.hypernet.count()) == row[4:]
    assert len(memory.embeddings) == n_tasks - 1
    assert memory.hypernet.count() + sum(e.numel() for e in memory.embeddings) == total


PRESETS = {
    # name: (row of the table, kind, tasks, inputs, outputs per task)
    "toy": ("toy", TaskKind.REGRESSION, 3, 1, 1),
    "split-mnist": ("split CL1", TaskKind.CLASSIFICATION, 5, 784, 2),
    "split-mnist-cl2-hnet-ent": ("split CL2", TaskKind.CLASSIFICATION, 5, 784, 2),
    "split-mnist-cl3-hnet-ent": ("split CL1", TaskKind.CLASSIFICATION, 5, 784, 2),
    "permuted-10": ("P10 CL1", TaskKind.CLASSIFICATION, 10, 1024, 10),
    "permuted-10-small": ("P10 small", TaskKind.CLASSIFICATION, 10, 1024, 10),
    "permuted-100": ("P100 CL1", TaskKind.CLASSIFICATION, 100, 1024, 10),
}


CIFAR_PRESETS = {
    # name: (target, hypernetwork, chunks, task embedding)
    "cifar-resnet32": (468_540, 457_144, 67, 32),
    "cifar-zenke": (1_276_508, 1_182_390, 233, 48),
}


@pytest.mark.parametrize("name", CIFAR_PRESETS)
def test_a_cifar_preset_builds_the_networks_of_the_paper(name):
    target, learned, chunks, embedding = CIFAR_PRESETS[name]
    config = resolve(load_preset(name))
    problem = Problem(TaskKind.CLASSIFICATION, 6, (3, 32, 32), 10, config.target, config.optimizer)
    learner = HypernetLearner(config.method, problem)
    counts = learner.counts()
    assert (counts.target, counts.learned, learner.memory.hypernet.n_rows) == (target, learned, chunks)
    # The paper counts the embeddings (457,336 in all for ResNet-32), and not the statistics that it keeps beside.
    statistics = 2 * 1136 + 31 if name == "cifar-resnet32" else 0
    assert counts.per_task == embedding + statistics
    assert learned + 6 * embedding == {"cifar-resnet32": 457_336, "cifar-zenke": 1_182_678}[name]


@pytest.mark.parametrize("name", PRESETS)
def test_a_preset_builds_the_networks_of_its_row(name):
    row_name, kind, n_tasks, inputs, outputs = PRESETS[name]
    row, config = TABLE[row_name], resolve(load_preset(name))
    scenario = config.training.scenario
    problem = Problem(kind, n_tasks, (inputs,), outputs, config.target, config.optimizer, scenario=scenario)
    learner = HypernetLearner(config.method, problem)
    counts = learner.counts()
    assert learner.memory.hypernet.n_rows == row.chunks
    assert (counts.learned, counts.target, counts.n_tasks) == (row.hypernet_size, row.target_size, n_tasks)
    assert counts.per_task == row.hypernet.embedding_size
    kept = row.hypernet_size + n_tasks * row.hypernet.embedding_size
    assert counts.compression == pytest.approx(kept / row.target_size)
