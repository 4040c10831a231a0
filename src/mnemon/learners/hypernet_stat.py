"""The hypernetwork with tasks recognised by sums over features of their inputs (HNET+STAT)."""

from __future__ import annotations

from dataclasses import dataclass, field

import torch
from torch import Tensor

from mnemon.inference.base import AbstractInference, Ask
from mnemon.inference.calibration import Combine, CombinedInference, UsualEntropy
from mnemon.inference.likelihood import DensityConfig, LikelihoodInference
from mnemon.inference.statistics import StatisticsInference, SumsConfig
from mnemon.learners.hypernet import HypernetLearner, check_untold


class HypernetStat(HypernetLearner):
    """Where the task of an input is not told, the task answers whose classes are likeliest by the sums of all."""

    @dataclass(frozen=True)
    class Config(HypernetLearner.Config):
        """Settings of the method."""

        sums: SumsConfig = field(default_factory=SumsConfig)
        """The sums by which tasks are recognised."""
        combine: Combine = Combine.NONE
        """What else says which task it is: none, entropy or likelihood (a density per task, as in hypernet-lik)."""
        density: DensityConfig = field(default_factory=DensityConfig)
        """The density of each task; only with combine=likelihood."""

    config: Config
    shares_batches = False

    def _make_inference(self) -> AbstractInference:
        check_untold(self.problem)
        problem, config = self.problem, self.config
        statistics = StatisticsInference(config.sums, problem.input_shape, problem.outputs_per_task)
        if config.combine is Combine.NONE:
            return statistics
        if config.combine is Combine.ENTROPY:
            return CombinedInference([statistics, UsualEntropy(self._ask)], self._ask)
        densities = LikelihoodInference(
            config.density, problem.n_inputs, problem.outputs_per_task, problem.optimizer, problem.n_tasks
        )
        return CombinedInference([statistics, densities], self._ask)

    def _ask(self, inputs: Tensor) -> Ask:
        """Return what asks the networks of tasks about some inputs."""

        def ask(task_id: int) -> Tensor:
            with torch.no_grad():
                return self._predict(inputs, task_id, self.memory.cached_weights(task_id))

        return ask
