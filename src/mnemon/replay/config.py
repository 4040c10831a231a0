"""Settings of the models that replay earlier tasks."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import ClassVar

from mnemon.errors import UsageError
from mnemon.memory.config import MemoryConfig, PenaltyForm


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
class ReplayConfig:
    """Where inputs of earlier tasks come from. Each source has a class of its own, with its further settings.

    Example:
        >>> sorted(mnemon.ReplayConfig.variants())
        ['gan', 'plain-vae', 'present', 'real', 'vae']
    """

    section: ClassVar[str] = "replay"
    chosen_by: ClassVar[str] = "model"
    """The setting on which it depends which others there are."""

    model: str = ""
    """Where inputs of earlier tasks come from: vae, gan, plain-vae, real, or present (the new task's inputs: LwF)."""

    @classmethod
    def variants(cls) -> dict[str, type[ReplayConfig]]:
        """Return the settings of each source by its name."""
        from mnemon.replay import REPLAYS  # the sources are built on what stands here

        return {name: source.Config for name, source in REPLAYS.items()}

    @classmethod
    def variant(cls, name: str) -> type[ReplayConfig]:
        """Return the settings of a source.

        Args:
            name: The name of the source.

        Returns:
            The class of its settings.

        Raises:
            UsageError: If there is no such source.
        """
        from mnemon.replay import REGISTRY

        return REGISTRY.find(name).Config


@dataclass(frozen=True)
class DrawingConfig(ReplayConfig):
    """What all models have that draw images from noise."""

    encoder: tuple[int, ...] = (400, 400)
    """Widths of the encoder's hidden layers (gan: of the discriminator's)."""
    decoder: tuple[int, ...] = (400, 400)
    """Widths of the decoder's hidden layers (gan: of the generator's)."""
    latent: int = 100
    """Length of the noise that a decoder starts from."""
    learn_last: bool = False
    """Whether the last task is learned as well; nobody replays it, but it can be looked at."""

    def __post_init__(self) -> None:
        if self.latent < 1:
            raise UsageError(f"replay.latent must be at least 1, not {self.latent}.")
        for name in ("encoder", "decoder"):
            if any(width < 1 for width in getattr(self, name)):
                raise UsageError(f"replay.{name} must hold widths of at least 1, not {list(getattr(self, name))}.")

    def tasks_to_learn(self, n_tasks: int) -> int:
        """Return how many tasks the model learns."""
        return n_tasks if self.learn_last else n_tasks - 1


@dataclass(frozen=True)
class GeneratorConfig(DrawingConfig, MemoryConfig):
    """What models have whose decoder a hypernetwork generates and protects."""

    condition: Condition = Condition.NOISE
    """What a decoder is told of its task: noise (a fixed random vector), one-hot, one-hot-wide or none."""
    condition_size: int = 100
    """Length of the condition (noise and one-hot-wide)."""

    def __post_init__(self) -> None:
        MemoryConfig.__post_init__(self)
        DrawingConfig.__post_init__(self)
        if self.condition_size < 1:
            raise UsageError(f"replay.condition_size must be at least 1, not {self.condition_size}.")
        if self.penalty is PenaltyForm.WEIGHTED:
            raise UsageError("replay.penalty must be exact or plain: weighted is for classifiers only.")
