"""The whole state of a model: its settings, its learner, and what is stored of its tasks."""

from __future__ import annotations

import glob
import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from enum import Enum
from typing import Any, TypeVar

import torch
from torch import nn

from mnemon import interrupts
from mnemon.continual.adapters import LoRA
from mnemon.continual.auto_size import HELD_AT_ONCE, hypernet_for
from mnemon.continual.data import Inputs
from mnemon.continual.densities import check_inputs, densities_for
from mnemon.continual.learned_task import UNKNOWN, LearnedTask
from mnemon.continual.learner import ModuleLearner
from mnemon.continual.lock import ModelLock
from mnemon.continual.modules import float_type, form_of, prepare
from mnemon.continual.recognition import OwnRecogniser, Statistics, StatisticsRecogniser, Way, layer_of
from mnemon.errors import UsageError, choose, join_some, suggest
from mnemon.hypernet import HypernetConfig
from mnemon.memory.base import AbstractMemory
from mnemon.memory.config import MemoryConfig, NewEmbedding, Sample
from mnemon.memory.exact import ExactMemory, Start
from mnemon.memory.networks import NetworkMemory
from mnemon.optimizer import OptimizerConfig
from mnemon.seeding import derive, seed_all, with_random_numbers

T = TypeVar("T")
LONGEST_NAME = 200
"""Characters of a task's name."""


class Kind(str, Enum):
    """How the networks of tasks are kept."""

    EXACT = "exact"
    """Each as a code, which later tasks do not change."""
    GENERATED = "generated"
    """All by one hypernetwork, with a penalty that protects earlier tasks."""


@dataclass(frozen=True)
class ModelSettings:
    """How a model learns; all settings are saved in its file."""

    generate: tuple[str, ...]
    adapters: LoRA | None
    compression: float | None
    beta: float
    lr: float
    seed: int
    hypernet: HypernetConfig | None
    recognise: str
    memory: Kind = Kind.GENERATED
    tolerance: float | None = None
    start: Start = Start.KEPT
    statistics: Statistics = field(default_factory=Statistics)

    @classmethod
    def checked(
        cls,
        generate: str | Sequence[str],
        adapters: LoRA | None,
        compression: float | None,
        beta: float,
        lr: float,
        seed: int,
        hypernet: HypernetConfig | None,
        recognise: str,
        memory: str = Kind.GENERATED,
        tolerance: float | None = None,
        start: str = Start.KEPT,
        statistics: Statistics | None = None,
    ) -> ModelSettings:
        """Return settings as plain values; raise UsageError for an invalid one."""
        patterns = (generate,) if isinstance(generate, str) else generate
        if not isinstance(patterns, (tuple, list)) or not patterns or not all(isinstance(p, str) for p in patterns):
            raise UsageError(
                f"generate must be a pattern of parameter names, or a list of patterns, not {generate!r}."
            )
        for name, value, kind in (("adapters", adapters, LoRA), ("hypernet", hypernet, HypernetConfig)):
            if value is not None and not isinstance(value, kind):
                raise UsageError(f"{name} must be a {kind.__name__}(...), not {value!r}.")
        return cls(
            tuple(patterns),
            adapters,
            None if compression is None else _number("compression", compression, above=True),
            _number("beta", beta),
            _number("lr", lr, above=True),
            _seed(seed),
            hypernet,
            recognise,
            choose("kind of memory", _word(memory), {kind.value: kind for kind in Kind}),
            None if tolerance is None else _number("tolerance", tolerance),
            choose("start", _word(start), {start.value: start for start in Start}),
            replace(statistics or Statistics(), features=None),
        )


class State:
    """The state that learning, prediction, streams and files use; `ContinualModel` is the interface for users."""

    def __init__(self, module: nn.Module, settings: ModelSettings, own: Any = None):
        """Take the settings, and the user's own recogniser or features, if there are any."""
        self.settings = settings
        self.lock = ModelLock()
        self.tasks: list[LearnedTask] = []
        """In the order of their embeddings."""
        self.n_learned = 0
        """Number of tasks ever learned, forgotten ones too."""
        self.warned: set[str] = set()
        """Tasks for which a warning of forgetting was given."""
        self.n_inputs: int | None = None
        """Size of an input, if tasks are recognised by density."""
        self.learner = with_random_numbers(derive(settings.seed, "weights"), lambda: _learner(module, settings))
        self.form, self.floats = form_of(module), float_type(module)
        self.recogniser = self._recogniser(own)
        """Recognises tasks. Densities are in the learner instead: they learn together with the networks."""

    @property
    def device(self) -> torch.device:
        """The device on which the model computes."""
        return self.learner.device

    def _recogniser(self, own: Any) -> StatisticsRecogniser | OwnRecogniser | None:
        settings = self.settings
        if settings.recognise == Way.OWN:
            return OwnRecogniser(own)
        if settings.recognise not in (Way.STATISTICS, Way.FEATURES):
            return None
        seed = derive(settings.seed, "weights", 2) % 2**31
        run = own if settings.recognise == Way.FEATURES else layer_of(self.learner, settings.statistics.layer)
        return StatisticsRecogniser(settings.statistics, seed, run)

    @property
    def sums(self) -> StatisticsRecogniser | None:
        """The recogniser by statistics, if there is one."""
        return self.recogniser if isinstance(self.recogniser, StatisticsRecogniser) else None

    # The tasks by name

    @property
    def names(self) -> list[str]:
        """The names of the tasks, in their order."""
        return [task.name for task in self.tasks]

    def index_of(self, name: str) -> int:
        """Return the index of a task; the error for an unknown name suggests the nearest known one."""
        if not self.tasks:
            raise UsageError(f"There is no task '{name}': nothing was learned yet.")
        if name not in self.names:
            hint = suggest(str(name), self.names)
            raise UsageError(f"Unknown task '{name}'.{hint} Choose one of: {join_some(self.names)}.")
        return self.names.index(name)

    def about(self, name: str) -> LearnedTask:
        """Return what is stored of a task."""
        return self.tasks[self.index_of(name)]

    def check_new(self, name: str) -> None:
        """Refuse a name that is not allowed, or that another task has."""
        check_name(name)
        if name in self.names:
            raise UsageError(
                f"There is a task '{name}' already: choose another name, relearn it, or forget it first."
            )

    def forget(self, name: str) -> None:
        """Drop a task, and leave all others as they are."""
        index = self.index_of(name)

        def work() -> None:
            others = [t for t in range(len(self.tasks)) if t != index]
            self.learner.select_tasks(others)
            if self.sums is not None:
                self.sums.select(others)
            self.tasks = [task for task in self.tasks if task.name != name]

        interrupts.uninterrupted(work)

    def drop_unfinished(self) -> None:
        """Drop a task that was begun but not finished."""
        self.learner.give_up()
        self.learner.select_tasks(range(len(self.tasks)))
        if self.sums is not None:
            self.sums.give_up(len(self.tasks))

    # What learning needs

    def at_moment(self, serial: int, moment: int, work: Callable[[], T]) -> T:
        """Run `work` with the random numbers of torch that belong to a moment in the learning of a task."""
        return with_random_numbers(self._seed(serial, moment), work)

    def seed(self, serial: int, moment: int) -> None:
        """Seed torch for a moment in the learning of a task; the user's random state must be saved already."""
        seed_all(self._seed(serial, moment), self.device)

    def _seed(self, serial: int, moment: int) -> int:
        return (derive(self.settings.seed, "step", serial, 0) + moment) % 2**63

    def make_densities(self, inputs: Inputs) -> None:
        """Create densities for such inputs, if tasks are recognised by density."""
        self.check_densities(inputs)
        if self.settings.recognise == "density":
            self.make_densities_for(inputs[0][0].numel())

    def check_densities(self, inputs: Inputs) -> None:
        """Refuse inputs that cannot have a density, if tasks are recognised by density."""
        if self.settings.recognise == "density":
            check_inputs(inputs, self.n_inputs)

    def make_densities_for(self, n_inputs: int) -> None:
        """Create densities for inputs of this size, if there are none yet."""
        if self.n_inputs is not None:
            return
        settings = self.settings
        densities = with_random_numbers(
            derive(settings.seed, "weights", 1),
            lambda: densities_for(n_inputs, settings.compression, settings.beta, settings.lr),
        )
        self.n_inputs, self.learner.densities = n_inputs, densities.to(self.device)

    def all_or_nothing(self, work: Callable[[], T], undo_more: Callable[[], None] = lambda: None) -> T:
        """Run work that changes the model; if it fails or is stopped, restore the model.

        `undo_more` restores what else the work has changed.
        """
        learner, tasks, numbers = self.learner, list(self.tasks), (self.n_learned, self.n_inputs)
        densities, kept = learner.densities, learner.kept()
        mend, sums = self.mender(), self.sums
        kept_sums = sums.kept() if sums is not None else None

        def undo() -> None:
            mend()
            if sums is not None and kept_sums is not None:
                sums.put_back(kept_sums)
            learner.densities = densities
            learner.undo(kept)
            self.tasks, (self.n_learned, self.n_inputs) = tasks, numbers
            undo_more()

        return interrupts.all_or_nothing(work, undo)

    def mender(self) -> Callable[[], None]:
        """Return a function that restores the modules and the gradient mode of torch."""
        menders = [memory.target.mender() for memory in self.learner.memories]
        gradients = torch.is_grad_enabled()

        def mend() -> None:
            torch.set_grad_enabled(gradients)
            for mend_target in menders:
                mend_target()

        return mend


def _learner(module: nn.Module, settings: ModelSettings) -> ModuleLearner:
    own, names = prepare(module, settings.generate, settings.adapters)
    device = next(iter(own.parameters())).device
    make = _exact if settings.memory is Kind.EXACT else _generated
    return ModuleLearner(make(own, names, settings)).to(device)


def _exact(own: nn.Module, names: Sequence[str], settings: ModelSettings) -> AbstractMemory:
    return ExactMemory(own, _as_patterns(names), OptimizerConfig(lr=settings.lr), settings.start)


def _generated(own: nn.Module, names: Sequence[str], settings: ModelSettings) -> AbstractMemory:
    size = sum(p.numel() for name, p in own.named_parameters() if name in names)
    protection = MemoryConfig(
        beta=settings.beta,
        sample=Sample.ROWS,
        sample_size=HELD_AT_ONCE,
        new_embedding=NewEmbedding.RANDOM,
        hypernet=settings.hypernet or hypernet_for(size, settings.compression),
    )
    return NetworkMemory(own, protection, OptimizerConfig(lr=settings.lr), _as_patterns(names), from_own=True)


def _as_patterns(names: Sequence[str]) -> list[str]:
    return [glob.escape(name) for name in names]  # names, and no patterns


def check_name(name: Any) -> None:
    """Refuse a name that is not allowed for a task."""
    if not isinstance(name, (str, int, float, bytes, type(None))):  # the arguments in another order, probably
        raise UsageError(
            f"A task's name must be text, not {type(name).__name__}: data first, then the name, as in "
            "model.learn((inputs, targets), task='monday')."
        )
    if not isinstance(name, str) or not name.strip() or name == UNKNOWN:
        raise UsageError(f"A task's name must be some text other than '{UNKNOWN}', not {name!r}.")
    if not name.isprintable() or len(name) > LONGEST_NAME:
        raise UsageError(f"A task's name must be printable text of at most {LONGEST_NAME} characters, not {name!r}.")


def _word(value: Any) -> str:
    return str(getattr(value, "value", value))


def _number(name: str, value: Any, above: bool = False) -> float:
    """Return a setting as a plain number of at least 0, or above it."""
    try:
        found = math.nan if isinstance(value, (str, bytes)) else float(value)
    except (TypeError, ValueError, OverflowError, RuntimeError):
        found = math.nan
    if not 0 <= found < math.inf or (above and not found):
        raise UsageError(f"{name} must be a finite number {'above' if above else 'of at least'} 0, not {value!r}.")
    return found


def _seed(seed: Any) -> int:
    try:
        found = operator.index(seed)
    except TypeError:
        found = -1
    if found < 0:
        raise UsageError(f"seed must be a whole number of at least 0, not {seed!r}.")
    if found >= 2**63:
        raise UsageError(f"seed must be below 2**63, not {seed!r}.")
    return found
