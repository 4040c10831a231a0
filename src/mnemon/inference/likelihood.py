r"""Take an input for the task under which it is most likely: a protected density for each task (HNET+LIK).

$$\hat t = \arg\max_t \, \log \frac1C \sum_c p_t(x \mid c)$$

One hypernetwork generates encoder and decoder of a small variational autoencoder for each task, told the class, and
the penalty holds both in place. Nothing is replayed and no task classifier is trained; an input that is unlikely
under every task is of none of them.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.inference.base import AbstractInference, Ask
from mnemon.memory.config import MemoryConfig, PenaltyForm
from mnemon.memory.networks import NetworkMemory
from mnemon.models.vae import DensityVAE
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import Batch, Terms, pixels_of

AT_ONCE = 500
"""Inputs scored at once: samples x inputs x pixels have to fit into memory."""
FLOOR_EXAMPLES, FLOOR_SHARE = 1000, 0.05
"""Training examples on which a task's floor is taken, and the share of them that lies below it."""


@dataclass(frozen=True)
class DensityConfig(MemoryConfig):
    """The density of each task, and its protection."""

    section: ClassVar[str] = "density"

    encoder: tuple[int, ...] = (100, 100)
    """Widths of the encoder's hidden layers."""
    decoder: tuple[int, ...] = (50, 150)
    """Widths of the decoder's hidden layers."""
    latent: int = 20
    """Length of the latent vector."""
    samples: int = 10
    """Latent vectors per input and class when a task is inferred."""
    anneal: bool = True
    """Whether the learning rate falls to 0 along a cosine within each task; not where optimizer.schedule moves it."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("latent", "samples"):
            if getattr(self, name) < 1:
                raise UsageError(f"density.{name} must be at least 1, not {getattr(self, name)}.")
        for name in ("encoder", "decoder"):
            if any(width < 1 for width in getattr(self, name)):
                raise UsageError(f"density.{name} must hold widths of at least 1, not {list(getattr(self, name))}.")
        if self.penalty is PenaltyForm.WEIGHTED:
            raise UsageError("density.penalty must be exact or plain: weighted is for classifiers only.")


class LikelihoodInference(AbstractInference):
    """Scores a task by the log likelihood of an input under its density."""

    def __init__(
        self,
        config: DensityConfig,
        n_inputs: int,
        n_classes: int,
        optimizer: OptimizerConfig,
        capacity: int | None = None,
        from_own: bool = False,
    ):
        super().__init__()
        self.config, self.n_classes, self._optimizer = config, n_classes, optimizer
        module = DensityVAE(n_inputs, n_classes, config.encoder, config.decoder, config.latent)
        self.memory = NetworkMemory(module, config, optimizer, capacity=capacity, from_own=from_own)
        self.floors = nn.ParameterList()
        """For each task, the log likelihood below which hardly any of its training examples lies."""

    def train_step(self, batch: Batch) -> Terms:
        pixels = pixels_of(batch.inputs)
        noise = torch.randn(1, len(pixels), self.config.latent, device=pixels.device, dtype=pixels.dtype)
        classes = F.one_hot(batch.targets, self.n_classes).to(pixels)
        loss = -self.memory.run(batch.task_id, pixels, classes, noise, training=True).mean()
        if self.config.anneal and not self._optimizer.changes_rate:
            for optimizer in self.memory.optimizers.values():
                optimizer.param_groups[0]["lr"] = self._optimizer.lr * 0.5 * (1 + math.cos(math.pi * batch.progress))
        terms = {f"density_{name}": value for name, value in self.memory.descend(loss).items()}
        return {"density_loss": loss.detach(), **terms}

    @torch.no_grad()
    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        parts = pixels_of(inputs).split(AT_ONCE)
        tasks = range(self.n_begun)
        return torch.cat([torch.stack([self._score(part, task) for task in tasks], dim=1) for part in parts])

    def _score(self, pixels: Tensor, task_id: int) -> Tensor:
        """Return log p(x) [n] under a task, each of its classes equally likely."""
        n, weights = len(pixels), self.memory.cached_weights(task_id)
        # The same noise for all inputs, always: an input has the same score in whatever company it comes.
        noise = torch.randn(self.config.samples, 1, self.config.latent, generator=torch.Generator().manual_seed(0))
        noise = noise.to(pixels)
        each = []
        for hot in torch.eye(self.n_classes).to(pixels):
            bound = self.memory.run(task_id, pixels, hot.expand(n, -1), noise, training=False, weights=weights)
            each.append(bound)
        return torch.stack(each).logsumexp(0) - math.log(self.n_classes)

    def known(self, scores: Tensor) -> Tensor:
        """Tell for each input whether its task finds it as likely as nearly all of its training examples."""
        likelihood, task = scores.max(1)
        return likelihood >= torch.stack(list(self.floors))[task]

    @torch.no_grad()
    def finish_learning(self, examples: Examples) -> None:
        picked = torch.randperm(len(examples))[:FLOOR_EXAMPLES]
        inputs, _ = examples.batch(picked.to(examples.device))
        inputs = inputs[0] if isinstance(inputs, tuple) else inputs  # of several inputs, the first
        task_id = self.n_begun - 1
        scores = torch.cat([self._score(part, task_id) for part in pixels_of(inputs).split(AT_ONCE)])
        self.floors[task_id].copy_(scores.quantile(FLOOR_SHARE))

    def add_task(self) -> None:
        lowest = torch.full((), torch.finfo(torch.float32).min, device=self.memory.hypernet.readout.device)
        self.floors.append(nn.Parameter(lowest, requires_grad=False))

    def select_tasks(self, order: Sequence[int]) -> None:
        self.floors = nn.ParameterList(self.floors[task_id] for task_id in order)

    def mechanisms(self) -> dict[str, str]:
        return {"density_penalty": "the penalty on changes of generated densities"} if self.config.beta else {}

    def count(self) -> int:
        return self.memory.hypernet.count()

    @property
    def numel_per_task(self) -> int:
        return self.memory.numel_per_task + 1
