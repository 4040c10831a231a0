"""How a hypernetwork holds what it generates for earlier tasks in place: the settings."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar

from mnemon.errors import UsageError, check_not_negative
from mnemon.hypernet import HypernetConfig
from mnemon.memory.lookahead import LookaheadMode


class PenaltyForm(str, Enum):
    """How the drift of the generated weights is summed."""

    EXACT = "exact"
    """By Gram matrices: the same number, at a cost that hardly grows with the tasks."""
    PLAIN = "plain"
    """Weight by weight: slow, to compare with."""
    WEIGHTED = "weighted"
    """Weight by weight, each by its Fisher information, which is stored for every task (classifiers only)."""


class Sample(str, Enum):
    """On which part of the earlier tasks a step takes the penalty."""

    ALL = "all"
    """On all of it."""
    TASKS = "tasks"
    """On `sample_size` tasks, drawn afresh in every step."""
    ROWS = "rows"
    """On `sample_size` rows (chunks of any tasks), drawn afresh in every step."""


class OldEmbeddings(str, Enum):
    """What happens to the embeddings of earlier tasks."""

    FIXED = "fixed"
    """They stay as they were."""
    PLASTIC = "plastic"
    """They may move, as long as the generated weights stay."""


class NewEmbedding(str, Enum):
    """Where the embedding of a new task starts."""

    RANDOM = "random"
    """Drawn from N(0, 1)."""
    PREVIOUS = "previous"
    """A copy of the previous task's."""
    NEARBY = "nearby"
    """The previous task's with a little noise, of a tenth of N(0, 1)."""
    APART = "apart"
    """A corner of a regular simplex: as far from all others as can be. Needs embedding_size + 1 >= tasks."""


class Start(str, Enum):
    """What is generated is added to."""

    GENERATED = "generated"
    """Nothing: the hypernetwork gives the whole weights (the paper)."""
    OWN = "own"
    """The network's own initial values. They follow from the seed and are not counted."""


class Unit(str, Enum):
    """The unit of what is added to the network's initial values."""

    ONE = "one"
    """1, for all tensors."""
    LAYER = "layer"
    """The standard deviation of each tensor's own initial values; for biases and scales the mean of the others."""


@dataclass(frozen=True)
class MemoryConfig:
    """A hypernetwork, and how the weights that it generates for earlier tasks are kept.

    Example:
        >>> mnemon.MemoryConfig(beta=0.05, hypernet=mnemon.HypernetConfig(hidden=(32,))).beta
        0.05
    """

    section: ClassVar[str] = "method"
    """What its settings are called by in errors."""

    beta: float = 0.01
    """Strength of the penalty on changes of what is generated for earlier tasks; 0 is fine-tuning."""
    penalty: PenaltyForm = PenaltyForm.EXACT
    """How the penalty is summed: exact (fast), plain (slow twin) or weighted (by Fisher information)."""
    sample: Sample = Sample.ALL
    """What the penalty is taken on in a step: all, a sample of tasks, or a sample of rows."""
    sample_size: int = 32
    """Number of tasks or rows in a sample."""
    sample_above: int = 0
    """Rows of earlier tasks up to which all of them are taken (sample=rows): long streams alone are sampled."""
    lookahead: LookaheadMode = LookaheadMode.CONSTANT
    """Whether the penalty looks ahead by the step of the task gradient: constant, compiled (the same, faster), off or
    differentiated."""
    old_embeddings: OldEmbeddings = OldEmbeddings.FIXED
    """Embeddings of earlier tasks: fixed or plastic."""
    new_embedding: NewEmbedding = NewEmbedding.RANDOM
    """Start of a new task's embedding: random, previous, nearby (previous with a little noise) or apart."""
    embedding_scale: float = 1.0
    """Standard deviation of a new task's embedding; a small one starts tasks close to what all have in common."""
    start: Start = Start.GENERATED
    """What is generated is added to: nothing (generated) or the network's initial values, uncounted (own)."""
    unit: Unit = Unit.ONE
    """Unit of what is added to the initial values (start=own): one, or the deviation of each layer's own (layer)."""
    clip: float | None = None
    """Largest norm of the task gradient; a longer one is shortened to it. Without a number none is."""
    hypernet: HypernetConfig = field(default_factory=HypernetConfig)
    """The hypernetwork."""

    def __post_init__(self) -> None:
        check_not_negative(f"{self.section}.beta", self.beta)
        if self.sample_size < 1:
            raise UsageError(f"{self.section}.sample_size must be at least 1, not {self.sample_size}.")
        if self.sample_above < 0:
            raise UsageError(f"{self.section}.sample_above must not be negative, not {self.sample_above}.")
        if not self.embedding_scale > 0:
            raise UsageError(f"{self.section}.embedding_scale must be above 0, not {self.embedding_scale}.")
        if self.unit is Unit.LAYER and self.start is Start.GENERATED:
            raise UsageError(f"{self.section}.unit=layer needs {self.section}.start=own.")
        if self.clip is not None and not self.clip > 0:
            raise UsageError(f"{self.section}.clip must be above 0, not {self.clip}.")
