r"""Online elastic weight consolidation: weights are held by their Fisher information (Schwarz et al., 2018).

$$L = L_{task} + \frac\lambda2 \sum_i \tilde F_i (w_i - w_i^*)^2, \qquad
\tilde F \leftarrow \gamma \tilde F + F_t$$

Where a source multiplies the sum by $\gamma$ once more in the loss (van de Ven & Tolias, 2019), its $\lambda\gamma$
is the $\lambda$ here.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from mnemon.benchmarks.task import Examples, TaskKind
from mnemon.errors import TrainingError, UsageError, check_not_negative
from mnemon.learners.consolidation import AbstractConsolidation
from mnemon.learners.one_network import OneNetworkConfig
from mnemon.memory.fisher import fisher_of_network
from mnemon.problem import Problem

AT_ONCE = 500
"""Examples that are labelled at once."""


class Labels(str, Enum):
    """Of which answers the Fisher information takes the likelihood."""

    TRUE = "true"
    """The labels of the training data: the empirical Fisher information."""
    SAMPLED = "sampled"
    """Answers drawn from the network's own distribution: the Fisher information proper."""
    PREDICTED = "predicted"
    """The network's likeliest answers."""


class OnlineEWC(AbstractConsolidation):
    """One network whose weights are held by their Fisher information, summed over tasks with a decay."""

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method."""

        strength: float = 1e4
        """Strength of the penalty (the paper's lambda); 0 is fine-tuning."""
        gamma: float = 1.0
        """How much of earlier tasks' importance stays when a task is added."""
        labels: Labels = Labels.SAMPLED
        """Answers that the Fisher information is of: true, sampled (drawn from the network) or predicted."""
        fisher_examples: int | None = None
        """Examples on which the Fisher information is taken. Without a number: all."""

        def __post_init__(self) -> None:
            check_not_negative("method.strength", self.strength)
            if not 0 <= self.gamma <= 1:
                raise UsageError(f"method.gamma must lie between 0 and 1, not {self.gamma}.")
            if self.fisher_examples is not None and self.fisher_examples < 1:
                raise UsageError(f"method.fisher_examples must be at least 1, not {self.fisher_examples}.")

    config: Config

    def __init__(self, config: Config, problem: Problem):
        if problem.kind is TaskKind.REGRESSION and config.labels is Labels.PREDICTED:
            raise UsageError(
                "In a regression the most likely answer has no gradient: set method.labels to true or sampled."
            )
        super().__init__(problem)
        self.config = config

    @property
    def stiffness(self) -> float:
        return self.config.strength / 2

    def importance_of(self, examples: Examples) -> Tensor:
        picked = torch.randperm(len(examples))[: self.config.fisher_examples]
        inputs, targets = examples.batch(picked.to(examples.inputs.device))
        found = fisher_of_network(self.network, self._log_likelihood, inputs, self._labels(inputs, targets))
        return self.config.gamma * self.importance + found

    def _log_likelihood(self, outputs: Tensor, targets: Tensor) -> Tensor:
        return self.problem.log_likelihood(self._competing(outputs), targets)

    def _competing(self, outputs: Tensor) -> Tensor:
        return self.problem.competing_outputs(outputs, self.n_begun - 1, self.n_begun)

    @torch.no_grad()
    def _labels(self, inputs: Tensor, targets: Tensor) -> Tensor:
        if self.config.labels is Labels.TRUE:
            return self.problem.competing_targets(targets, self.n_begun - 1, self.n_begun)
        self.network.eval()
        outputs = torch.cat([self._competing(self.network(part)) for part in inputs.split(AT_ONCE)])
        if not outputs.isfinite().all():
            raise TrainingError(
                "The network's outputs became infinite or NaN: try a smaller optimizer.lr or strength."
            )
        if self.problem.kind is TaskKind.REGRESSION:
            return outputs + torch.randn_like(outputs)
        if self.config.labels is Labels.PREDICTED:
            return outputs.argmax(1)
        return outputs.softmax(1).multinomial(1).squeeze(1)
