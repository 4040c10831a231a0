"""Settings of the models that replay earlier tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from mnemon.errors import UsageError
from mnemon.memory.config import MemoryConfig, PenaltyForm


class ReplayModel(str, Enum):
    """Where inputs of earlier tasks come from; only vae and gan have a hypernetwork and its penalty."""

    VAE = "vae"
    """A variational autoencoder with a protected decoder for each task."""
    GAN = "gan"
    """A generative adversarial network with a protected generator for each task."""
    PLAIN_VAE = "plain-vae"
    """A variational autoencoder kept by its own replay (deep generative replay)."""
    REAL = "real"
    """The real data of earlier tasks: an upper bound."""
    PRESENT = "present"
    """The present task's own inputs (learning without forgetting)."""


class Condition(str, Enum):
    """What a decoder is told of the task, beside the weights that are its own."""

    NOISE = "noise"
    """A fixed vector of `condition_size` numbers, drawn once per task from N(0, 1): the paper's text."""
    ONE_HOT = "one-hot"
    """The task's number as a one-hot vector, as long as there are tasks."""
    ONE_HOT_WIDE = "one-hot-wide"
    """The same in a vector of `condition_size` numbers, most of them always 0: the published code."""
    NONE = "none"
    """Nothing."""


@dataclass(frozen=True)
class ReplayConfig(MemoryConfig):
    """The model that replays earlier tasks, and the protection of its decoder."""

    section: ClassVar[str] = "replay"

    model: ReplayModel = ReplayModel.VAE
    """Where inputs of earlier tasks come from: vae, gan, plain-vae, real, or present (the new task's inputs: LwF)."""
    encoder: tuple[int, ...] = (400, 400)
    """Widths of the encoder's hidden layers (gan: of the discriminator's)."""
    decoder: tuple[int, ...] = (400, 400)
    """Widths of the decoder's hidden layers (gan: of the generator's)."""
    latent: int = 100
    """Length of the noise that a decoder starts from."""
    condition: Condition = Condition.NOISE
    """What a decoder is told of its task: noise (a fixed random vector), one-hot, one-hot-wide or none."""
    condition_size: int = 100
    """Length of the condition (noise and one-hot-wide)."""
    dropout: float = 0.4
    """Share of the discriminator's units that are left out in a step (gan only)."""
    keep_optimizer: bool = False
    """Whether one optimizer goes on from task to task; otherwise each task starts with a new one (plain-vae only)."""
    learn_last: bool = False
    """Whether the last task is learned as well; nobody replays it, but it can be looked at."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("latent", "condition_size"):
            if getattr(self, name) < 1:
                raise UsageError(f"replay.{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("encoder", "decoder"):
            if any(width < 1 for width in getattr(self, name)):
                raise UsageError(f"replay.{name} must hold widths of at least 1, not {list(getattr(self, name))}.")
        if not 0 <= self.dropout < 1:
            raise UsageError(f"replay.dropout must be at least 0 and below 1, not {self.dropout}.")
        if self.penalty is PenaltyForm.WEIGHTED:
            raise UsageError("replay.penalty must be exact or plain: a weighted one is for classifiers.")

    def tasks_to_learn(self, n_tasks: int) -> int:
        """Return how many tasks the model learns."""
        return n_tasks if self.learn_last else n_tasks - 1
