"""The hypernetwork with a protected density for each task (HNET+LIK)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemon.inference.base import AbstractInference
from mnemon.inference.likelihood import DensityConfig, LikelihoodInference
from mnemon.learners.hypernet import HypernetLearner, check_untold


class HypernetLIK(HypernetLearner):
    """Where the task of an input is not told, the task under which it is most likely answers."""

    @dataclass(frozen=True)
    class Config(HypernetLearner.Config):
        """Settings of the method."""

        density: DensityConfig = field(default_factory=DensityConfig)
        """The density of each task."""

    config: Config
    shares_batches = False

    def _make_inference(self) -> AbstractInference:
        check_untold(self.problem)
        problem = self.problem
        return LikelihoodInference(
            self.config.density, problem.n_inputs, problem.outputs_per_task, problem.optimizer, problem.n_tasks
        )

    @torch.no_grad()
    def unknown(self, inputs: Tensor) -> Tensor:
        """Tell for each input whether even its likeliest task finds it less likely than its own training examples."""
        assert isinstance(self.inference, LikelihoodInference)
        return ~self.inference.known(self.inference.scores(inputs, lambda task_id: self.predict(inputs, task_id)))
