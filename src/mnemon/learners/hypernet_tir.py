"""The hypernetwork with a classifier of tasks on protected replay (HNET+TIR)."""

from __future__ import annotations

from dataclasses import dataclass, field

from mnemon.errors import UsageError
from mnemon.inference.base import AbstractInference
from mnemon.inference.classifier import TaskClassifier
from mnemon.learners.hypernet import HypernetLearner, check_untold
from mnemon.replay import ReplayConfig, ReplayModel, build_replay
from mnemon.replay.source import AbstractReplay


class HypernetTIR(HypernetLearner):
    """Where the task of an input is not told, a classifier of tasks says whose network answers."""

    @dataclass(frozen=True)
    class Config(HypernetLearner.Config):
        """Settings of the method."""

        replay: ReplayConfig = field(default_factory=ReplayConfig)
        """The model whose samples keep the classifier of tasks from forgetting."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if self.replay.model in (ReplayModel.PLAIN_VAE, ReplayModel.PRESENT):
                raise UsageError(
                    f"Replay by {self.replay.model.value} cannot say which task a sample is of, and so cannot train "
                    "a classifier of tasks: set method.replay.model to vae, gan or real."
                )

    config: Config
    shares_batches = False

    def _make_inference(self) -> AbstractInference:
        check_untold(self.problem)
        return TaskClassifier(self.problem, build_replay(self.config.replay, self.problem))

    @property
    def sees_past(self) -> bool:
        return self.config.replay.model is ReplayModel.REAL

    @property
    def replay(self) -> AbstractReplay:
        assert isinstance(self.inference, TaskClassifier)
        return self.inference.replay
