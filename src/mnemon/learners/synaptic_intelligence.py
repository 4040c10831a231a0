r"""Synaptic intelligence: weights are held by how much their way lowered the loss (Zenke et al., 2017).

$$L = L_{task} + c \sum_i \Omega_i (w_i - w_i^*)^2, \qquad
\Omega_i \leftarrow \max\Big(0,\; \Omega_i + \frac{-\sum_s g_i \, \Delta w_i}{(w_i - w_i^*)^2 + \xi} \Big)$$

The sum goes over the steps of the task just learned, with the gradient $g$ of its own loss and the step
$\Delta w$ that was taken.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn.utils import parameters_to_vector

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError, check_not_negative
from mnemon.learners.consolidation import AbstractConsolidation
from mnemon.problem import Problem, Terms


class SynapticIntelligence(AbstractConsolidation):
    """One network whose weights are held by their share in lowering earlier tasks' losses."""

    path: Tensor

    @dataclass(frozen=True)
    class Config:
        """Settings of the method."""

        strength: float = 1.0
        """Strength of the penalty (the paper's c); 0 is fine-tuning."""
        xi: float = 0.1
        """Damping: keeps weights that hardly moved from seeming important."""

        def __post_init__(self) -> None:
            check_not_negative("method.strength", self.strength)
            if not 0 < self.xi < float("inf"):
                raise UsageError(f"method.xi must be a finite number above 0, not {self.xi}.")

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config
        self.register_buffer("path", torch.zeros(self.size()))

    @property
    def stiffness(self) -> float:
        return self.config.strength

    def descend(self) -> Terms:
        gradients = (torch.zeros_like(p) if p.grad is None else p.grad for p in self.network.parameters())
        gradient, before = parameters_to_vector(gradients), self.weights()
        terms = super().descend()
        self.path.addcmul_(gradient, before - self.weights())
        return terms

    def importance_of(self, examples: Examples) -> Tensor:
        gained = self.path / ((self.weights() - self.anchor).square() + self.config.xi)
        self.path.zero_()
        return (self.importance + gained).clamp(min=0)
