"""Models that draw inputs of earlier tasks again: one file each, one line here; others come from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, TypeVar

from mnemon.errors import UsageError
from mnemon.problem import Problem
from mnemon.registry import Registry
from mnemon.replay.config import ReplayConfig
from mnemon.replay.current_inputs import PresentData
from mnemon.replay.gan import GAN
from mnemon.replay.real import RealData
from mnemon.replay.source import AbstractReplay
from mnemon.replay.vae import VAE, PlainVAE

Source = TypeVar("Source", bound=type[AbstractReplay])

REPLAYS: dict[str, type[AbstractReplay]] = {
    "vae": VAE,
    "gan": GAN,
    "plain-vae": PlainVAE,
    "real": RealData,
    "present": PresentData,
}
REGISTRY = Registry("replay model", REPLAYS, "replay.model")
"""The same table, open to plugins."""


def register_replay(name: str) -> Callable[[Source], Source]:
    """Make a source of replayed inputs of your own known by a name, beside those that come with mnemon.

    Args:
        name: Letters, digits, - and _; the word that `--set replay.model=` takes.

    Returns:
        A decorator for a subclass of `AbstractReplay`, which is made from its settings and the problem. Within it
        there is a dataclass `Config` that derives from `ReplayConfig`, with this name as its `model`.

    Raises:
        UsageError: If the name is taken, or the class is no such source.

    Example:
        >>> from dataclasses import dataclass
        >>> @mnemon.register_replay("zeros")
        ... class Zeros(mnemon.AbstractReplay):
        ...     @dataclass(frozen=True)
        ...     class Config(mnemon.ReplayConfig):
        ...         model: str = "zeros"
        ...     def __init__(self, config, problem):
        ...         super().__init__()
        ...         self.n_inputs = problem.n_inputs
        ...     n_ready = property(lambda self: self.n_begun - self.in_task)
        ...     def train_step(self, batch):
        ...         return {}
        ...     def draw(self, n, tasks):
        ...         return mnemon.Replayed(torch.zeros(n, self.n_inputs), None)
    """

    def add(source: Source) -> Source:
        _check(name, source)
        REGISTRY.add(name, source)
        return source

    return add


def _check(name: str, source: type[AbstractReplay]) -> None:
    if not (isinstance(source, type) and issubclass(source, AbstractReplay)):
        raise UsageError(f"A source of replayed inputs is a subclass of mnemon.AbstractReplay, not {source!r}.")
    config = getattr(source, "Config", None)
    if not (isinstance(config, type) and issubclass(config, ReplayConfig) and dataclasses.is_dataclass(config)):
        raise UsageError(f"{source.__name__} needs its settings: a dataclass Config(mnemon.ReplayConfig) within it.")
    if config().model != name:
        raise UsageError(f'The settings of {source.__name__} must say its name: model: str = "{name}".')


def build_replay(config: ReplayConfig, problem: Problem) -> AbstractReplay:
    """Return the replay model of a run."""
    source: Any = REGISTRY.find(config.model)
    made: AbstractReplay = source(config, problem)
    return made
