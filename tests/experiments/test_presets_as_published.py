"""Presets that stand for published runs have the published settings, number by number, and the published sizes."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import pytest
import torch

from mnemon.benchmarks.scenario import Scenario
from mnemon.benchmarks.task import TaskKind
from mnemon.config import flat
from mnemon.experiments.preset import all_presets, load_preset
from mnemon.experiments.run_config import RunConfig, resolve
from mnemon.hypernet import HypernetConfig, build_hypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.target import Target
from mnemon.models.mlp import ACTIVATIONS
from mnemon.problem import Problem

Settings = dict[str, Any]


class Sizes(NamedTuple):
    """A hypernetwork: the weights that it is for, its settings, and what comes of them."""

    weights: int
    hidden: list[int]
    chunk: int
    embedding: int
    chunk_embedding: int
    activation: str
    chunks: int
    parameters: int
    """Without the embeddings of tasks."""


# Networks and their hypernetworks

SPLIT = Sizes(478_410, [10, 10], 42_000, 96, 96, "elu", 12, 465_192)
SPLIT_CL2 = SPLIT._replace(weights=475_202)
P10 = Sizes(2_126_100, [25, 25], 78_000, 24, 8, "elu", 28, 2_029_699)
P10_CL2 = P10._replace(weights=2_036_010, chunks=27, parameters=2_029_691)
P100 = Sizes(3_027_000, [200, 250, 350], 7_500, 128, 12, "relu", 404, 2_803_648)
P10_SMALL = Sizes(122_700, [100, 75, 50], 2_000, 64, 12, "relu", 62, 121_819)
RESNET = Sizes(468_540, [], 7_000, 32, 32, "elu", 67, 457_144)  # linear: it has no activation
ZENKENET = Sizes(1_276_508, [100, 150, 200], 5_500, 48, 80, "relu", 233, 1_182_390)
SPLIT_VAE = Sizes(555_184, [10, 10], 50_000, 96, 96, "elu", 12, 553_192)
P10_VAE = Sizes(2_227_024, [25, 25], 85_000, 24, 8, "elu", 27, 2_211_691)
"""Of the decoders of the related work; those that are really used are smaller."""


def generated(sizes: Sizes, path: str = "method.hypernet") -> Settings:
    form = {"form": "chunked", "hidden": sizes.hidden, "chunk": sizes.chunk, "embedding_size": sizes.embedding}
    more = {"chunk_embedding_size": sizes.chunk_embedding, "activation": sizes.activation}
    return {f"{path}.{name}": value for name, value in {**form, **more}.items()}


# Data and training

ADAM = {"optimizer.name": "adam", "optimizer.beta1": 0.9, "optimizer.beta2": 0.999, "optimizer.weight_decay": 0.0}


def trained(lr: float, steps: int, batch_size: int = 128) -> Settings:
    lengths = {"training.steps": steps, "training.epochs": "none", "training.batch_size": batch_size}
    return {**ADAM, "optimizer.lr": lr, **lengths, "optimizer.schedule": "constant", "training.held_out": 0.0}


def permuted(n_tasks: int, hidden: list[int]) -> Settings:
    data = {"benchmark.name": "permuted-mnist", "benchmark.n_tasks": n_tasks, "benchmark.padding": 2}
    return {**data, "target.network": "mlp", "target.hidden": hidden, **trained(1e-4, 5000)}


SPLIT_DATA = {
    **{"benchmark.name": "split-mnist", "benchmark.classes_per_task": 2, "benchmark.pairs": "natural"},
    **{"target.network": "mlp", "target.hidden": [400, 400], **trained(1e-3, 2000)},
}
P10_DATA, P100_DATA = permuted(10, [1000, 1000]), permuted(100, [1000, 1000])
SMALL_DATA = permuted(10, [100, 100])
TOY_DATA = {"benchmark.name": "toy-regression", "target.hidden": [10, 10], "target.activation": "sigmoid"}
CIFAR_DATA = {"benchmark.name": "split-cifar", "benchmark.n_tasks": 6}
RESNET_DATA = {
    **{**CIFAR_DATA, **ADAM, "benchmark.augment": True, "benchmark.scaling": "standard"},
    **{"target.network": "resnet32", "optimizer.lr": 1e-3, "optimizer.schedule": "steps"},
    **{"optimizer.milestones": [0.4, 0.6, 0.8, 0.9], "optimizer.factors": [0.1, 0.01, 1e-3, 5e-4]},
    **{"training.epochs": 200.0, "training.batch_size": 32},
}
ZENKE_DATA = {
    **{**CIFAR_DATA, **ADAM, "benchmark.augment": False, "benchmark.scaling": "unit", "optimizer.beta1": 0.5},
    **{"target.network": "zenkenet", "optimizer.lr": 1e-4, "optimizer.schedule": "constant"},
    **{"training.epochs": 80.0, "training.batch_size": 256},
}


# Methods


def hnet(sizes: Sizes, beta: float, **more: Any) -> Settings:
    penalty = {"beta": beta, "sample": "all", "lookahead": "constant", "old_embeddings": "fixed", "heads": "all"}
    rest = {"penalized_heads": "all", "statistics": "per-task", "new_embedding": "random", **more}
    return {"method.name": "hypernet", **_method({**penalty, **rest}), **generated(sizes)}


def _method(settings: Settings) -> Settings:
    return {f"method.{name}": value for name, value in settings.items()}


def vae(sizes: Sizes, encoder: list[int], decoder: list[int], beta: float) -> Settings:
    own = {"model": "vae", "encoder": encoder, "decoder": decoder, "latent": 100, "beta": beta, "sample": "all"}
    condition = {"condition": "noise", "condition_size": 100, "learn_last": False}
    form = generated(sizes, "method.replay.hypernet")
    return {f"method.replay.{name}": value for name, value in {**own, **condition}.items()} | form


def hnet_r(decoder: Settings, scenario: str) -> Settings:
    new = "zero" if scenario == "cl3" else "nothing"
    own = {"temperature": 2.0, "shares": "half", "new_outputs": new, "keep_optimizer": False}
    return {"method.name": "replay", **_method(own), "target.initial_values": "usual", **decoder}


def bound(scenario: str) -> Settings:
    """The bound of HNET+R, which has no settings of a decoder."""
    return hnet_r({"method.replay.model": "real"}, scenario)


DGR = {
    **{"method.name": "replay", "method.temperature": 2.0, "method.shares": "even", "method.new_outputs": "nothing"},
    **{"method.keep_optimizer": True, "method.replay.keep_optimizer": True, "target.initial_values": "uniform"},
    **{"method.replay.model": "plain-vae", "method.replay.latent": 100},
}


def dgr(width: int) -> Settings:
    return {**DGR, "method.replay.encoder": [width, width], "method.replay.decoder": [width, width]}


def ewc(strength: float, gamma: float) -> Settings:
    """The source's lambda counts times gamma here: its loss multiplies by gamma once more."""
    own = {"strength": pytest.approx(strength * gamma), "gamma": gamma, "labels": "predicted", "keep_optimizer": True}
    return {"method.name": "online-ewc", **_method({**own, "fisher_examples": "none"})}


def si(c: float) -> Settings:
    own = {"strength": c, "xi": 0.1, "gradient": "total", "clamp": False, "keep_optimizer": True}
    return {"method.name": "synaptic-intelligence", **_method(own)}


SHUFFLED = {"benchmark.pairs": "shuffled"}
SPLIT_R, SPLIT_TIR = vae(SPLIT_VAE, [400, 400], [250, 350], 0.01), vae(SPLIT_VAE, [400, 400], [50, 150], 0.01)
P10_R, P10_TIR = vae(P10_VAE, [400, 400], [400, 400], 0.05), vae(P10_VAE, [1000, 1000], [1000, 1000], 0.05)
P100_VAE = Sizes(0, [100], 20_000, 128, 12, "elu", 0, 0)  # the paper has no count for it
P100_TIR = vae(P100_VAE, [1000, 1000], [400, 600], 0.1)
P100_CL2 = P100._replace(hidden=[200, 250, 300], chunk=6000)
TIR = {"method.name": "hypernet-tir"}
GAN = {
    **{"method.replay.model": "gan", "method.replay.dropout": 0.4, "method.replay.hypernet.hidden": [25, 25]},
    **{"method.replay.hypernet.chunk": 75_000, "optimizer.lr": 1e-4, "training.steps": 10_000},
}
ONE_CLASS = {"benchmark.name": "split-mnist", "benchmark.classes_per_task": 1, "method.replay.learn_last": True}
TOY = {
    **{"method.name": "hypernet", "method.beta": 0.005, "method.hypernet.form": "full", "training.steps": 4000},
    **{"method.hypernet.hidden": [10, 10], "method.hypernet.embedding_size": 2, "optimizer.lr": 1e-2},
    **{"method.hypernet.activation": "sigmoid", "training.batch_size": 32},
}

BY_SCENARIO: dict[str, dict[str, Settings]] = {
    # name: {scenario: settings}
    "split-mnist{}": {"cl1": {**SPLIT_DATA, **hnet(SPLIT, 0.01)}},
    "split-mnist{}-hnet-ent": {sc: {**SPLIT_DATA, **hnet(SPLIT, 0.01)} for sc in ("cl2", "cl3")},
    "split-mnist{}-hnet-tir": {sc: {**SPLIT_DATA, **hnet(SPLIT, 0.01), **TIR, **SPLIT_TIR} for sc in ("cl2", "cl3")},
    "split-mnist{}-hnet-r": {sc: {**SPLIT_DATA, **hnet_r(SPLIT_R, sc)} for sc in ("cl1", "cl2", "cl3")},
    "split-mnist{}-replay-bound": {sc: {**SPLIT_DATA, **bound(sc)} for sc in ("cl1", "cl2", "cl3")},
    "split-mnist{}-online-ewc": {
        sc: {**SPLIT_DATA, **SHUFFLED, **settings}
        for sc, settings in {"cl1": ewc(1e8, 0.8), "cl2": ewc(1e8, 0.7), "cl3": ewc(1e9, 0.8)}.items()
    },
    "split-mnist{}-synaptic-intelligence": {
        sc: {**SPLIT_DATA, **SHUFFLED, **si(c)} for sc, c in {"cl1": 50.0, "cl2": 500.0, "cl3": 0.5}.items()
    },
    "split-mnist{}-dgr": {sc: {**SPLIT_DATA, **SHUFFLED, **dgr(400)} for sc in ("cl1", "cl2", "cl3")},
    "permuted-10{}": {"cl1": {**P10_DATA, **hnet(P10, 0.01)}},
    "permuted-10{}-hnet-ent": {sc: {**P10_DATA, **hnet(P10, 0.01)} for sc in ("cl2", "cl3")},
    "permuted-10{}-hnet-tir": {sc: {**P10_DATA, **hnet(P10, 0.01), **TIR, **P10_TIR} for sc in ("cl2", "cl3")},
    "permuted-10{}-hnet-r": {sc: {**P10_DATA, **hnet_r(P10_R, sc)} for sc in ("cl1", "cl2", "cl3")},
    "permuted-10{}-replay-bound": {sc: {**P10_DATA, **bound(sc)} for sc in ("cl1", "cl2", "cl3")},
    "permuted-10{}-online-ewc": {
        sc: {**P10_DATA, **settings}
        for sc, settings in {"cl1": ewc(500, 0.8), "cl2": ewc(1000, 0.9), "cl3": ewc(5, 1.0)}.items()
    },
    "permuted-10{}-synaptic-intelligence": {
        sc: {**P10_DATA, **si(c)} for sc, c in {"cl1": 5.0, "cl2": 5.0, "cl3": 0.1}.items()
    },
    "permuted-10{}-dgr": {sc: {**P10_DATA, **dgr(1000)} for sc in ("cl1", "cl2", "cl3")},
    "permuted-100{}": {"cl1": {**P100_DATA, **hnet(P100, 0.01)}},
    "permuted-100-drawn{}": {
        "cl1": {**P100_DATA, **hnet(P100, 0.01, sample="rows", sample_size=128, sample_above=4096)}
    },
    "permuted-100{}-hnet-tir": {
        "cl2": {**P100_DATA, **hnet(P100_CL2, 0.01, sample="tasks", sample_size=20), **TIR, **P100_TIR},
        "cl3": {**P100_DATA, **hnet(P100, 0.01), **TIR, **P100_TIR},
    },
    "permuted-100{}-online-ewc": {"cl1": {**P100_DATA, **ewc(100, 1.0)}},
    "permuted-100{}-synaptic-intelligence": {"cl1": {**P100_DATA, **si(0.1)}},
    "permuted-100{}-dgr": {"cl1": {**P100_DATA, **dgr(1000)}},
    "permuted-250{}": {
        "cl1": {
            **{**P100_DATA, "benchmark.n_tasks": 250},
            **hnet(P100._replace(chunk=12_000), 0.1, sample="tasks", sample_size=32),
        }
    },
    "permuted-10-small{}": {"cl1": {**SMALL_DATA, **hnet(P10_SMALL, 0.05), "training.label_smoothing": 0.0}},
    "permuted-10-small-smoothed{}": {
        "cl1": {**SMALL_DATA, **hnet(P10_SMALL, 0.05), "training.label_smoothing": pytest.approx(1 - 0.95)}
    },
    "permuted-50-small{}": {
        "cl1": {**SMALL_DATA, "benchmark.n_tasks": 50, **hnet(P10_SMALL._replace(hidden=[100, 100]), 0.1)}
    },
    "cifar-resnet32{}": {"cl1": {**RESNET_DATA, **hnet(RESNET, 0.05, penalized_heads="own")}},
    "cifar-resnet32-finetuned-hypernet{}": {
        "cl1": {**RESNET_DATA, **hnet(RESNET, 0.0, penalized_heads="own", statistics="shared")}
    },
    "cifar-resnet32-from-scratch-hypernet{}": {
        "cl1": {**RESNET_DATA, "method.name": "from-scratch-hypernet", **generated(RESNET)}
    },
    "cifar-zenke{}": {"cl1": {**ZENKE_DATA, **hnet(ZENKENET, 0.01, penalized_heads="own")}},
    "cifar-zenke-finetuned-hypernet{}": {"cl1": {**ZENKE_DATA, **hnet(ZENKENET, 0.0, penalized_heads="own")}},
    "cifar-zenke-from-scratch-hypernet{}": {
        "cl1": {**ZENKE_DATA, "method.name": "from-scratch-hypernet", **generated(ZENKENET)}
    },
    "class-incremental-gan": {"cl3": {**ONE_CLASS, **GAN}},
    "class-incremental-vae-paper": {
        "cl3": {**SPLIT_DATA, **SPLIT_R, **ONE_CLASS, "method.shares": "half", "method.new_outputs": "nothing"}
    },
    "toy{}": {"cl1": {**TOY_DATA, **TOY}},
}


def name_of(pattern: str, scenario: str) -> str:
    """Return the name of a preset: CL1 is left out, unless HNET+R or its bound is run there."""
    always = pattern.endswith(("hnet-r", "replay-bound"))
    return pattern.format(f"-{scenario}" if always or scenario != "cl1" else "")


PUBLISHED = {
    name_of(pattern, scenario): {**settings, "training.scenario": scenario}
    for pattern, scenarios in BY_SCENARIO.items()
    for scenario, settings in scenarios.items()
}
N_PUBLISHED = 60
OTHERS = {"permuted-10-small-hat", "permuted-10-medium-hat", "cifar-zenke-synaptic-intelligence"}
"""Their numbers are of runs whose settings are not all known."""

COUNTED = {
    "split-mnist": SPLIT, "split-mnist-cl2-hnet-ent": SPLIT_CL2, "split-mnist-cl3-hnet-ent": SPLIT,
    "split-mnist-cl2-hnet-tir": SPLIT_CL2, "split-mnist-cl3-hnet-tir": SPLIT,
    "permuted-10": P10, "permuted-10-cl2-hnet-ent": P10_CL2, "permuted-10-cl3-hnet-ent": P10,
    "permuted-10-cl2-hnet-tir": P10_CL2, "permuted-10-cl3-hnet-tir": P10,
    "permuted-100": P100, "permuted-100-drawn": P100, "permuted-100-cl3-hnet-tir": P100,
    "permuted-10-small": P10_SMALL, "permuted-10-small-smoothed": P10_SMALL,
    "cifar-resnet32": RESNET, "cifar-resnet32-finetuned-hypernet": RESNET,
    "cifar-resnet32-from-scratch-hypernet": RESNET,
    "cifar-zenke": ZENKENET, "cifar-zenke-finetuned-hypernet": ZENKENET,
    "cifar-zenke-from-scratch-hypernet": ZENKENET,
}  # fmt: skip
"""Of which hypernetwork the classifier's weights come."""
OF_DECODER = {"split-mnist": SPLIT_VAE, "permuted-10": P10_VAE}
"""By the benchmark: a preset's hypernetwork for its decoder, put before the decoder of the related work."""
N_INPUTS = {"split-mnist": (784,), "permuted-mnist": (1024,), "split-cifar": (3, 32, 32)}


@functools.cache
def config_of(name: str) -> RunConfig:
    return resolve(load_preset(name))


def counted(config: RunConfig) -> tuple[int, int, int]:
    """Return the weights of the target that a preset generates, its chunks, and the hypernetwork's parameters."""
    n_tasks = config.benchmark.n_tasks or 5
    per_task = 2 if config.benchmark_name == "split-mnist" else 10
    shape, scenario = N_INPUTS[config.benchmark_name], config.training.scenario
    moves = config.optimizer
    problem = Problem(TaskKind.CLASSIFICATION, n_tasks, shape, per_task, config.target, moves, scenario=scenario)
    with torch.device("meta"):
        target = Target(problem.network(per_task if scenario is Scenario.CL2 else problem.outputs.total))
        hypernet = build_hypernet(config.method.hypernet, target)
    return target.size, hypernet.n_rows, hypernet.count()


def counted_for(config: HypernetConfig, weights: int) -> tuple[int, int]:
    """Return the chunks and the parameters of a hypernetwork for so many weights."""
    activation = ACTIVATIONS[config.activation]
    sizes = (config.chunk, config.chunk_embedding_size)
    with torch.device("meta"):
        hypernet = ChunkedHypernet(weights, config.embedding_size, config.hidden, activation, *sizes)
    return hypernet.n_rows, hypernet.count()


@pytest.mark.parametrize("name", PUBLISHED)
def test_a_preset_has_the_published_settings_and_sizes(name):
    found = dict(flat(config_of(name).plain()))
    assert {path: found.get(path, "not known") for path in PUBLISHED[name]} == PUBLISHED[name]
    if (sizes := COUNTED.get(name)) is not None:
        assert counted(config_of(name)) == (sizes.weights, sizes.chunks, sizes.parameters)
    of_decoder = next((s for start, s in OF_DECODER.items() if name.startswith(f"{start}-")), None)
    if of_decoder is not None and found.get("method.replay.model") == "vae":
        own = counted_for(config_of(name).method.replay.hypernet, of_decoder.weights)
        assert own == (of_decoder.chunks, of_decoder.parameters)


def test_all_presets_with_a_published_number_are_among_them():
    assert len(PUBLISHED) == N_PUBLISHED
    assert set(COUNTED) < set(PUBLISHED)
    with_number = {preset.name for preset in all_presets() if preset.published}
    assert with_number - set(PUBLISHED) == OTHERS
