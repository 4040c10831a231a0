"""Methods of continual learning: one file each, one line here; others are registered from outside."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TypeVar

from mnemon.errors import UsageError
from mnemon.learners.base import AbstractLearner
from mnemon.learners.bounds import FinetunedTarget, FromScratch, Joint
from mnemon.learners.from_scratch_hypernet import FromScratchHypernet
from mnemon.learners.hat import HAT
from mnemon.learners.hypernet import HypernetLearner
from mnemon.learners.hypernet_lik import HypernetLIK
from mnemon.learners.hypernet_stat import HypernetStat
from mnemon.learners.hypernet_tir import HypernetTIR
from mnemon.learners.online_ewc import OnlineEWC
from mnemon.learners.replay import ReplayLearner
from mnemon.learners.separate import SeparateNetworks
from mnemon.learners.statistics import StatisticsLearner
from mnemon.learners.synaptic_intelligence import SynapticIntelligence
from mnemon.learners.xdg import XdG
from mnemon.registry import Registry

Learner = TypeVar("Learner", bound=type[AbstractLearner])

LEARNERS: dict[str, type[AbstractLearner]] = {
    "hypernet": HypernetLearner,
    "hypernet-tir": HypernetTIR,
    "hypernet-lik": HypernetLIK,
    "hypernet-stat": HypernetStat,
    "replay": ReplayLearner,
    "statistics": StatisticsLearner,
    "online-ewc": OnlineEWC,
    "synaptic-intelligence": SynapticIntelligence,
    "hat": HAT,
    "xdg": XdG,
    "finetuned-target": FinetunedTarget,
    "from-scratch": FromScratch,
    "from-scratch-hypernet": FromScratchHypernet,
    "separate": SeparateNetworks,
    "joint": Joint,
}
METHODS = Registry("method", LEARNERS, "method.name")
"""The same table, open to plugins."""


def register_method(name: str) -> Callable[[Learner], Learner]:
    """Make a method of your own known by a name, beside those that come with mnemon.

    Args:
        name: Letters, digits, - and _; the word that `mnemon compare` and `--set method=` take.

    Returns:
        A decorator for a subclass of `AbstractLearner` with a dataclass `Config`, its settings.

    Raises:
        UsageError: If the name is taken, or the class is no method.

    Example:
        >>> @mnemon.register_method("my-method")
        ... class MyMethod(mnemon.HypernetLearner):
        ...     pass
    """

    def add(method: Learner) -> Learner:
        METHODS.add(name, _check_method(method))
        return method

    return add


def _check_method(method: type[AbstractLearner]) -> type[AbstractLearner]:
    if not (isinstance(method, type) and issubclass(method, AbstractLearner)):
        raise UsageError(f"A method is a subclass of mnemon.AbstractLearner, not {method!r}.")
    if not dataclasses.is_dataclass(getattr(method, "Config", None)):
        raise UsageError(f"{method.__name__} needs its settings: a dataclass Config within it, which may be empty.")
    return method
