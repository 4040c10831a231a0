"""The settings of a memory: how a hypernetwork keeps generating the same weights for earlier tasks."""

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
    """By Gram matrices: the same number, at a cost that hardly grows with the number of tasks."""
    PLAIN = "plain"
    """Weight by weight: slow, for comparison."""
    WEIGHTED = "weighted"
    """Weight by weight, each by its Fisher information, which is stored for every task (classifiers only)."""


class Sample(str, Enum):
    """For which part of the earlier tasks a step computes the penalty."""

    ALL = "all"
    """All tasks."""
    TASKS = "tasks"
    """`sample_size` tasks, drawn anew in every step."""
    ROWS = "rows"
    """`sample_size` rows (chunks of any tasks), drawn anew in every step."""


class OldEmbeddings(str, Enum):
    """What happens to the embeddings of earlier tasks."""

    FIXED = "fixed"
    """They do not change."""
    PLASTIC = "plastic"
    """They may change; the penalty keeps the generated weights."""


class NewEmbedding(str, Enum):
    """Where the embedding of a new task starts."""

    RANDOM = "random"
    """Drawn from N(0, 1)."""
    PREVIOUS = "previous"
    """A copy of the previous task's."""
    NEARBY = "nearby"
    """The previous task's plus a little noise, 0.1 times N(0, 1)."""
    APART = "apart"
    """A corner of a regular simplex: as far from all others as possible. Needs embedding_size + 1 >= tasks."""


class Start(str, Enum):
    """To what the generated weights are added."""

    GENERATED = "generated"
    """To nothing: the hypernetwork generates the weights themselves (the paper)."""
    OWN = "own"
    """To the network's initial values, which follow from the seed and are not counted."""


class Unit(str, Enum):
    """The unit of the generated weights, if they are added to the network's initial values."""

    ONE = "one"
    """1, for all tensors."""
    LAYER = "layer"
    """The standard deviation of each tensor's initial values; for biases and scales, the mean of the others."""


@dataclass(frozen=True)
class MemoryConfig:
    """A hypernetwork, and how it keeps the weights that it generates for earlier tasks.

    Example:
        >>> mnemon.MemoryConfig(beta=0.05, hypernet=mnemon.HypernetConfig(hidden=(32,))).beta
        0.05
    """

    section: ClassVar[str] = "method"
    """The prefix of its settings in error messages."""

    beta: float = 0.01
    """Strength of the penalty on changes of the weights generated for earlier tasks; 0 is fine-tuning."""
    penalty: PenaltyForm = PenaltyForm.EXACT
    """How the penalty is computed: exact (fast), plain (slow, same result) or weighted (by Fisher information)."""
    sample: Sample = Sample.ALL
    """What a step's penalty is computed on: all, a sample of tasks, or a sample of rows."""
    sample_size: int = 32
    """Number of tasks or rows in a sample."""
    sample_above: int = 0
    """Up to this many rows of earlier tasks, all are used (sample=rows); only longer streams are sampled."""
    lookahead: LookaheadMode = LookaheadMode.CONSTANT
    """Whether the penalty is measured after the step of the task gradient: constant, compiled (the same, faster), off
    or differentiated."""
    old_embeddings: OldEmbeddings = OldEmbeddings.FIXED
    """Embeddings of earlier tasks: fixed or plastic."""
    new_embedding: NewEmbedding = NewEmbedding.RANDOM
    """Start of a new task's embedding: random, previous, nearby (previous with a little noise) or apart."""
    embedding_scale: float = 1.0
    """Standard deviation of a new task's embedding; with a small one, all tasks start alike."""
    start: Start = Start.GENERATED
    """To what generated weights are added: nothing (generated) or the network's initial values, not counted (own)."""
    unit: Unit = Unit.ONE
    """Unit of generated weights (start=own): one, or the deviation of each layer's initial values (layer)."""
    clip: float | None = None
    """Maximum norm of the task gradient; a longer gradient is scaled down to it. Unset: no limit."""
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
