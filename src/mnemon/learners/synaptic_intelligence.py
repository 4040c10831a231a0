r"""Synaptic intelligence: weights are held by how much their way lowered the loss (Zenke et al., 2017).

$$L = L_{task} + c \sum_i \Omega_i (w_i - w_i^*)^2, \qquad
\Omega_i \leftarrow \max\Big(0,\; \Omega_i + \frac{-\sum_s g_i \, \Delta w_i}{(w_i - w_i^*)^2 + \xi} \Big)$$

The sum goes over the steps of the task just learned, with the gradient $g$ of its own loss and the step
$\Delta w$ that was taken. Others (van de Ven & Tolias, 2019) take the gradient of the whole loss, penalty and all,
and leave out the maximum.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError, check_not_negative
from mnemon.learners.consolidation import AbstractConsolidation
from mnemon.learners.one_network import OneNetworkConfig
from mnemon.problem import Problem, Terms


class PathGradient(str, Enum):
    """Of which loss the path to a task's solution takes the gradient."""

    TASK = "task"
    """Of the task's own loss, as in the paper."""
    TOTAL = "total"
    """Of the whole loss: the penalty on earlier tasks' weights is part of it."""


class SynapticIntelligence(AbstractConsolidation):
    """One network whose weights are held by their share in lowering earlier tasks' losses."""

    path: Tensor

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method."""

        strength: float = 1.0
        """Strength of the penalty (the paper's c); 0 is fine-tuning."""
        xi: float = 0.1
        """Damping: keeps weights that hardly moved from seeming important."""
        gradient: PathGradient = PathGradient.TASK
        """The gradient that the importances are summed from: task (of the task's own loss) or total (penalty too)."""
        clamp: bool = True
        """Whether an importance that would be negative becomes 0."""

        def __post_init__(self) -> None:
            check_not_negative("method.strength", self.strength)
            if not 0 < self.xi < float("inf"):
                raise UsageError(f"method.xi must be a finite number above 0, not {self.xi}.")

    config: Config

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config
        self.register_buffer("path", torch.zeros(self.size()))

    @property
    def stiffness(self) -> float:
        return self.config.strength

    def descend(self) -> Terms:
        gradient, before = self._gradient(), self.weights()
        terms = super().descend()
        if self.config.gradient is PathGradient.TOTAL:
            gradient = self._gradient()
        self.path.addcmul_(gradient, before - self.weights())
        return terms

    def _gradient(self) -> Tensor:
        """Return a copy of the gradients as they are now: of the task's loss, later of the penalty as well."""
        gradients = (torch.zeros_like(p) if p.grad is None else p.grad for p in self.network.parameters())
        return parameters_to_vector(gradients)

    def importance_of(self, examples: Examples) -> Tensor:
        gained = self.path / ((self.weights() - self.anchor).square() + self.config.xi)
        self.path.zero_()
        importance = self.importance + gained
        return importance.clamp(min=0) if self.config.clamp else importance
