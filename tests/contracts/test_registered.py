"""What is registered from outside is a method, benchmark, network, hypernetwork or replay source like any other."""

from __future__ import annotations

import pickle
import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import mnemon
from mnemon import plugins
from mnemon.experiments.compute import Compute
from mnemon.experiments.preset import all_presets, is_preset, load_preset
from mnemon.experiments.run import build_run
from mnemon.experiments.run_config import preset_of, resolve
from mnemon.learners.bounds import FinetunedTarget
from mnemon.registry import Registry

DIGITS = load_preset("split-digits")


@pytest.fixture(autouse=True)
def forget(monkeypatch) -> Iterator[None]:
    """What a test registers is gone after it."""
    added: list[tuple[Registry, str]] = []
    add = Registry.add

    def note(registry: Registry, name: str, item: object) -> None:
        add(registry, name, item)
        added.append((registry, name))

    monkeypatch.setattr(Registry, "add", note)
    monkeypatch.setattr(plugins, "_used", dict(plugins._used))
    yield
    for registry, name in set(added):
        del registry.table[name], registry.plugins[name]


class Own(FinetunedTarget):
    """A method of ours."""


class Zeros(mnemon.AbstractReplay):
    """Draws nothing but zeros."""

    @dataclass(frozen=True)
    class Config(mnemon.ReplayConfig):
        """Settings of the source."""

        model: str = "zeros"
        """The name of the source."""
        value: float = 0.0
        """What is drawn."""

    def __init__(self, config: Config, problem: mnemon.Problem):
        super().__init__()
        self.config, self.shape = config, problem.input_shape

    @property
    def n_ready(self) -> int:
        return self.n_begun - self.in_task

    def train_step(self, batch: mnemon.Batch) -> dict[str, Tensor]:
        return {}

    def draw(self, n: int, tasks: object) -> mnemon.Replayed:
        return mnemon.Replayed(torch.full((n, *self.shape), self.config.value), None)


def learner_of(*words: str) -> mnemon.AbstractLearner:
    config = pickle.loads(pickle.dumps(resolve(DIGITS, ["n_tasks=2", *words])))  # as in another process
    assert [plugin.module for plugin in config.plugins] == [__name__]
    parts = build_run(config, 0, Compute("cpu")).take()
    assert parts is not None
    return parts[1]


def refused(message: str):
    return pytest.raises(mnemon.UsageError, match=f"^{re.escape(message)}")


def test_a_method_is_built_by_its_name():
    assert mnemon.register_method("own")(Own) is Own
    assert type(learner_of("method=own")) is Own


def test_a_network_is_built_by_its_name():
    @mnemon.register_network("own")
    def make(config: mnemon.TargetConfig, input_shape: tuple[int, ...], outputs: int) -> nn.Module:
        return nn.Linear(input_shape[0], outputs)

    learner = learner_of("method=finetuned-target", "network=own")
    assert isinstance(learner.network, nn.Linear)


def test_a_hypernetwork_is_built_by_its_name():
    @mnemon.register_hypernet("own")
    def make(config: mnemon.HypernetConfig, target: mnemon.Target) -> mnemon.AbstractHypernet:
        return mnemon.FullHypernet(target.size, 3, (), nn.Identity)

    learner = learner_of("form=own", "target.hidden=[5]")
    assert learner.memory.hypernet.embedding_size == 3


def test_a_source_of_replayed_inputs_is_built_by_its_name_with_its_own_settings():
    mnemon.register_replay("zeros")(Zeros)
    learner = learner_of("method=replay", "replay.model=zeros", "replay.value=0.25")
    assert learner.replay.config == Zeros.Config("zeros", 0.25)
    with refused("method.replay.model=zeros has no setting 'beta'. Known: model, value."):
        resolve(DIGITS, ["method=replay", "replay.model=zeros", "replay.beta=1"])


def test_a_benchmark_may_be_a_function_and_has_no_need_of_a_preset():
    @mnemon.register_benchmark("own")
    def own(data: Path | None, seed: int) -> mnemon.TaskStream:
        x = torch.rand(20, 4)
        return mnemon.stream_from_arrays([(x, torch.arange(20) % 2)] * 2, name="own", seed=seed)

    config = resolve(*preset_of("own"))
    assert (config.benchmark_name, config.name) == ("own", "own")
    assert len(config.benchmark.build(None, 0)) == 2
    assert build_run(config, 0, Compute("cpu")).record.plugins == [__name__]


def test_presets_in_a_folder_of_ones_own_are_found(tmp_path):
    (tmp_path / "own.toml").write_text('like = "split-digits"\nabout = "Ours."\n')
    (tmp_path / "notes.txt").write_text("no preset")
    mnemon.register_presets(tmp_path)
    mnemon.register_presets(tmp_path)
    assert is_preset("own")
    assert load_preset("own").about == "Ours."
    assert "own" in [preset.name for preset in all_presets()]
    assert resolve(load_preset("own")).plugins == [], "its settings are all that a run needs"


@pytest.mark.parametrize(
    ("register", "item", "message"),
    [
        (mnemon.register_method, 3, "A method is a subclass of mnemon.AbstractLearner, not 3."),
        (mnemon.register_method, dict, "A method is a subclass of mnemon.AbstractLearner, not <class 'dict'>."),
        (
            mnemon.register_method,
            type("Bare", (mnemon.AbstractLearner,), {}),
            "Bare needs its settings: a dataclass Config within it, which may be empty.",
        ),
        (
            mnemon.register_benchmark,
            3,
            "A benchmark is a dataclass with build(data, seed), or such a function,",
        ),
        (mnemon.register_benchmark, dict, "The benchmark dict must be a frozen dataclass with a method build(data, "),
        (mnemon.register_network, 3, "A network is a function of (config, input_shape, outputs), not 3."),
        (mnemon.register_hypernet, 3, "A hypernetwork is a function of (config, target), not 3."),
        (mnemon.register_replay, 3, "A source of replayed inputs is a subclass of mnemon.AbstractReplay, not 3."),
        (
            mnemon.register_replay,
            type("Bare", (mnemon.AbstractReplay,), {}),
            "Bare needs its settings: a dataclass Config(mnemon.ReplayConfig) within it.",
        ),
        (mnemon.register_replay, Zeros, 'The settings of Zeros must say its name: model: str = "own".'),
    ],
)
def test_what_is_nothing_of_the_kind_is_refused(register, item, message):
    with refused(message):
        register("own")(item)


def test_a_folder_without_presets_is_refused(tmp_path):
    with refused(f"There is no preset in {tmp_path}: a preset is a TOML file."):
        mnemon.register_presets(tmp_path)


def test_a_preset_of_mnemon_cannot_be_taken_over(tmp_path):
    (tmp_path / "split-digits.toml").write_text("")
    with refused("The preset 'split-digits' comes with mnemon: register yours under another name."):
        mnemon.register_presets(tmp_path)
