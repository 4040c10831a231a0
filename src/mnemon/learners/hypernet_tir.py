"""The hypernetwork with a task classifier on protected replay (HNET+TIR)."""

from __future__ import annotations

from dataclasses import dataclass, field

from mnemon.errors import UsageError
from mnemon.inference.base import AbstractInference
from mnemon.inference.classifier import TaskClassifier
from mnemon.learners.hypernet import HypernetLearner, check_untold
from mnemon.replay import REPLAYS, ReplayConfig, build_replay
from mnemon.replay.source import AbstractReplay
from mnemon.replay.vae import VAE


class HypernetTIR(HypernetLearner):
    """Where the task of an input is not told, a task classifier says whose network answers."""

    @dataclass(frozen=True)
    class Config(HypernetLearner.Config):
        """Settings of the method."""

        replay: ReplayConfig = field(default_factory=VAE.Config)
        """The model whose samples keep the task classifier from forgetting."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if not REPLAYS[self.replay.model].by_task:
                *names, last = (name for name, source in REPLAYS.items() if source.by_task)
                raise UsageError(
                    f"Replay by {self.replay.model} does not know the task of a sample, and cannot train a "
                    f"task classifier: set method.replay.model to {', '.join(names)} or {last}."
                )

    config: Config
    shares_batches = False

    def _make_inference(self) -> AbstractInference:
        check_untold(self.problem)
        return TaskClassifier(self.problem, build_replay(self.config.replay, self.problem))

    @property
    def sees_past(self) -> bool:
        return self.replay.sees_past

    @property
    def replay(self) -> AbstractReplay:
        assert isinstance(self.inference, TaskClassifier)
        return self.inference.replay
