"""Learners made tiny by the names of their settings: a new learner is tiny as soon as it is registered."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

from mnemon import config as settings
from mnemon.benchmarks.scenario import Scenario
from mnemon.errors import UsageError
from mnemon.learners import LEARNERS
from mnemon.problem import Problem

SIZES: dict[str, Any] = {
    "hidden": [8],
    "embedding_size": 4,
    "chunk": 19,
    "chunk_embedding_size": 3,
    "encoder": [10],
    "decoder": [10],
    "latent": 3,
    "condition_size": 2,
    "width": 16,
}
"""By the last part of a setting's path, wherever a learner has it."""

OWN: dict[str, dict[str, Any]] = {
    "hypernet": {"beta": 0.1},
    "hypernet-tir": {"beta": 0.1, "replay.beta": 0.1},
    "hypernet-stat": {"beta": 0.1},
    "replay": {"replay.beta": 0.1},
    "online-ewc": {"strength": 100.0},
    "synaptic-intelligence": {"strength": 3.0},
    "hat": {"sparsity": 0.1, "cycles": 5},
    "xdg": {"silent": 0.75},
}
"""By the learner's name: what it needs beside, to learn something in a few steps."""


@functools.cache
def paths_of(name: str) -> list[str]:
    """The paths of a learner's settings; kept, since the source is read for them."""
    return list(settings.setting_paths(LEARNERS[name].Config))


def values_of(name: str) -> dict[str, Any]:
    """The settings of a tiny learner by their paths."""
    paths = paths_of(name)
    sizes = {path: SIZES[last] for path in paths if (last := path.rpartition(".")[2]) in SIZES}
    return {**sizes, **OWN.get(name, {})}


def config_of(name: str, changes: Mapping[str, Any] | None = None) -> Any:
    """The config of a tiny learner, with some settings changed."""
    schema, table = LEARNERS[name].Config, {"method": {}}
    paths = [f"method.{path}" for path in paths_of(name)]
    for path, value in {**values_of(name), **(changes or {})}.items():
        settings.apply_override(table, f"method.{path}", value, paths)
    return settings.build(schema, table["method"], "method")


def words_of(name: str) -> list[str]:
    """The same settings as words for the command line."""
    return [f"method.{path}={value}" for path, value in values_of(name).items()]


def scenarios_of(name: str, problem: Problem) -> list[Scenario]:
    """The scenarios in which a learner is defined; problems differ only by theirs."""
    found = []
    for scenario in Scenario:
        try:
            LEARNERS[name](config_of(name), _in(problem, scenario))
        except UsageError as refusal:
            if scenario.value not in str(refusal):  # not a refusal of the scenario, then
                raise
        else:
            found.append(scenario)
    return found


def _in(problem: Problem, scenario: Scenario) -> Problem:
    return Problem(**{**vars(problem), "scenario": scenario})
