r"""Hard attention to the task: gates that are learned, and weights behind used units that stay (Serrà et al., 2018).

The gates of task t are $a_t = \sigma(s\,e_t)$ with a learned embedding $e_t$ and a slope $s$ that rises from
$1/s_{max}$ to $s_{max}$ again and again while the task is learned (`cycles`), so that the gates end up nearly 0 or 1.
A weight between two units may move by the share $1 - \min(a^{\le t}_{out}, a^{\le t}_{in})$ of its step, where
$a^{\le t}$ is the largest gate that any earlier task has. A price on units that no earlier task uses keeps some free
for later ones.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError, check_not_negative
from mnemon.learners.base import Counts
from mnemon.learners.gated import AbstractGatedLearner
from mnemon.learners.one_network import OneNetworkConfig
from mnemon.problem import Batch, Problem, Terms

MOST = 6.0
"""Embeddings stay within this range, where the gates can still be moved."""
STEEPEST = 50.0
"""Bound of the exponent in the compensation of gradients."""


class HAT(AbstractGatedLearner):
    """One network in which each task claims hidden units, and those claimed by earlier tasks keep their weights."""

    called = "HAT"
    used: Tensor

    @dataclass(frozen=True)
    class Config(OneNetworkConfig):
        """Settings of the method."""

        s_max: float = 400.0
        """Largest slope of the gates: the larger, the harder they are."""
        sparsity: float = 0.75
        """Price of units that no earlier task uses (the paper's c)."""
        gate_lr: float | None = None
        """Learning rate of the gates' embeddings. Without a number: that of the weights."""
        cycles: int = 10
        """How often the slope rises from 1/s_max to s_max within a task: once per epoch in the paper."""

        def __post_init__(self) -> None:
            if not 1 < self.s_max < float("inf"):
                raise UsageError(f"method.s_max must be a finite number above 1, not {self.s_max}.")
            check_not_negative("method.sparsity", self.sparsity)
            if self.gate_lr is not None and not 0 < self.gate_lr < float("inf"):
                raise UsageError(f"method.gate_lr must be a finite number above 0, not {self.gate_lr}.")
            if self.cycles < 1:
                raise UsageError(f"method.cycles must be at least 1, not {self.cycles}.")

    config: Config

    def __init__(self, config: Config, problem: Problem):
        super().__init__(problem)
        self.config = config
        self.embeddings = nn.ParameterList()
        self.register_buffer("used", torch.zeros(self.chain.size))
        self._free: dict[str, Tensor] = {}
        """For each parameter, the share of its steps that it may take."""
        self._held = torch.zeros(())

    def gates(self, task_id: int, slope: float | None = None) -> Tensor:
        return (self.embeddings[task_id] * (slope or self.config.s_max)).sigmoid()

    def slope(self, progress: float) -> float:
        """Return the slope of the gates at a moment of a task."""
        low, high = 1 / self.config.s_max, self.config.s_max
        return low + (high - low) * (round(progress * self.config.cycles, 12) % 1.0)

    def train_step(self, batch: Batch) -> Terms:
        slope = self.slope(batch.progress)
        gates = self.gates(batch.task_id, slope)
        task_loss = self.task_loss(self.run(batch.inputs, batch.task_id, gates, training=True), batch)
        unused = 1 - self.used
        price = (gates * unused).sum() / unused.sum().clamp(min=1e-6)
        for optimizer in self.optimizers.values():
            optimizer.zero_grad()
        (task_loss + self.config.sparsity * price).backward()
        self._compensate(self.embeddings[batch.task_id], slope)
        self._step()
        terms = {"task_loss": task_loss.detach(), "sparsity": price.detach()}
        return {**terms, "held": self._held} if self.n_begun > 1 else terms

    @torch.no_grad()
    def _compensate(self, embedding: Tensor, slope: float) -> None:
        """Make an embedding's gradient `s_max` times that at slope 1: steep gates let little through."""
        assert embedding.grad is not None
        steep = (slope * embedding).clamp(-STEEPEST, STEEPEST).cosh() + 1
        embedding.grad *= self.config.s_max / slope * steep / (embedding.cosh() + 1)

    @torch.no_grad()
    def _step(self) -> None:
        """Take the optimizers' step, of which every weight keeps only its free share.

        The paper scales the gradient; an optimizer that divides by its size, such as Adam, would undo that.
        """
        parameters = dict(self.network.named_parameters())
        before = {name: parameters[name].clone() for name in self._free}
        for optimizer in self.optimizers.values():
            optimizer.step()
        for name, share in self._free.items():
            parameters[name].copy_(torch.lerp(before[name], parameters[name], share))
        self.embeddings[-1].clamp_(-MOST, MOST)

    def add_task(self) -> None:
        super().add_task()
        self.embeddings.append(nn.Parameter(torch.randn(self.chain.size).to(self._device_marker)))

    def start_learning(self) -> None:
        super().start_learning()
        for embedding in self.embeddings:
            embedding.requires_grad_(False)
        new = self.embeddings[-1].requires_grad_()
        moves = self.problem.optimizer
        self.optimizers["embedding"] = replace(moves, lr=self.config.gate_lr or moves.lr).build([new])

    def rebuild(self) -> None:
        if self.n_begun < 2:
            return
        held = self.chain.hold(self.used)
        self._held = torch.cat([value.flatten() for value in held.values()]).mean()
        self._free = {name: 1 - value for name, value in held.items()}
        # The last layer: a task may move its own outputs and no others.
        first, stop = self.problem.outputs.head(self.n_begun - 1)
        for name, parameter in self.network.named_parameters():
            if name not in self._free:
                share = torch.zeros_like(parameter)
                share[first:stop] = 1
                self._free[name] = share

    def counts(self) -> Counts:
        plain = super().counts()
        return replace(
            plain, learned=plain.learned + len(self.used), bytes_learned=plain.bytes_learned + self.used.nbytes
        )

    def mechanisms(self) -> dict[str, str]:
        return {"held": "the protection of the weights of used units"}

    @torch.no_grad()
    def finish_learning(self, examples: Examples) -> None:
        self.used.copy_(torch.maximum(self.used, self.gates(self.n_begun - 1)))
        self._free = {}
