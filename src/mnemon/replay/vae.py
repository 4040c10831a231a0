r"""Variational autoencoders that replay earlier tasks: a protected decoder for each task, or a plain one for all.

$$L = -\frac{1}{d} \Big( \mathrm{E}_{q(z|x)} \log p(x|z) - \mathrm{KL}(q(z|x) \,\|\, \mathcal{N}(0, I)) \Big)$$

von Oswald et al. (2020), appendix B, divided by the number of pixels d. Pixels are Bernoulli, their grey values the
probabilities.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.models.mlp import MLP
from mnemon.optimizer import descend
from mnemon.problem import Batch, Problem, Terms, pixels_of
from mnemon.replay.config import DrawingConfig, GeneratorConfig
from mnemon.replay.generator import AbstractGenerator
from mnemon.replay.source import AbstractDrawing, Replayed


class VAE(AbstractGenerator):
    """One encoder for all tasks, which may forget, and a protected decoder for each."""

    @dataclass(frozen=True)
    class Config(GeneratorConfig):
        """Settings of the source."""

        model: str = "vae"
        """The name of the source."""

    def __init__(self, config: Config, problem: Problem):
        encoder = MLP(problem.input_shape, config.encoder, 2 * config.latent, nn.ReLU)
        super().__init__(config, problem, problem.initialise(encoder))
        self.n_pixels = problem.n_inputs

    def train_step(self, batch: Batch) -> Terms:
        if not self.learning:
            return {}
        pixels = pixels_of(batch.inputs)
        noise, prior = encode(self.partner, pixels)
        reconstruction = F.binary_cross_entropy_with_logits(self.generator.present(noise), pixels)
        parameters = list(self.partner.parameters())
        terms = self.generator.memory.descend(reconstruction + prior / self.n_pixels, parameters)
        self.optimizers["partner"].step()
        self.optimizers["partner"].zero_grad()
        penalty = {f"replay_{name}": value for name, value in terms.items()}
        return {"reconstruction": reconstruction.detach(), "prior": prior.detach() / self.n_pixels, **penalty}

    def decode(self, task_id: int, noise: Tensor) -> Tensor:
        return self.generator.frozen(task_id, noise).sigmoid()


class PlainVAE(AbstractDrawing):
    """One encoder and one decoder for all tasks, kept by their own replay: deep generative replay (DGR).

    Its samples are of all earlier tasks together; it cannot be asked for one of them.
    """

    by_task = False

    @dataclass(frozen=True)
    class Config(DrawingConfig):
        """Settings of the source."""

        model: str = "plain-vae"
        """The name of the source."""
        keep_optimizer: bool = False
        """Whether one optimizer goes on from task to task; otherwise each task starts with a new one."""

    def __init__(self, config: Config, problem: Problem):
        super().__init__(config.latent)
        self.config, self.problem = config, problem
        self.n_pixels = problem.n_inputs
        self.n_tasks = config.tasks_to_learn(problem.n_tasks)
        self.encoder = problem.initialise(MLP(problem.input_shape, config.encoder, 2 * config.latent, nn.ReLU))
        self.decoder = problem.initialise(MLP((config.latent,), config.decoder, self.n_pixels, nn.ReLU))
        self.before: nn.Module | None = None
        """The decoder as it was when the present task began."""

    @property
    def n_ready(self) -> int:
        return min(self.n_begun - self.in_task, self.n_tasks)

    def train_step(self, batch: Batch) -> Terms:
        if not self.optimizers:
            return {}
        reconstruction, prior = self._losses(pixels_of(batch.inputs))
        terms = {"reconstruction": reconstruction.detach(), "prior": prior.detach()}
        loss = reconstruction + prior
        if self.n_ready:
            reconstruction, prior = self._losses(self.sample(len(batch), range(self.n_ready)).inputs)
            terms |= {"replayed_reconstruction": reconstruction.detach(), "replayed_prior": prior.detach()}
            # Each task with the same weight.
            loss = (loss + (self.n_begun - 1) * (reconstruction + prior)) / self.n_begun
        descend(self.optimizers["vae"], loss)
        return terms

    def _losses(self, pixels: Tensor) -> tuple[Tensor, Tensor]:
        noise, prior = encode(self.encoder, pixels)
        return F.binary_cross_entropy_with_logits(self.decoder(noise), pixels), prior / self.n_pixels

    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        like = next(self.parameters())
        noise = torch.randn(n, self.latent, device=like.device, dtype=like.dtype)
        return Replayed(self.decode(max(tasks), noise), None)

    @torch.no_grad()
    def decode(self, task_id: int, noise: Tensor) -> Tensor:
        return (self.before or self.decoder)(noise).sigmoid()

    def start_learning(self) -> None:
        if self.n_begun > self.n_tasks:
            return
        self.optimizers = {"vae": self._optimizer()}
        if self.n_begun > 1:
            self.before = copy.deepcopy(self.decoder).requires_grad_(False)

    def lasting_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        goes_on = self.config.keep_optimizer and self.n_begun < self.n_tasks
        return {"vae": self._optimizer()} if goes_on else {}

    def _optimizer(self) -> torch.optim.Optimizer:
        """Return the optimizer: a new one, unless there is one that goes on."""
        kept = self.optimizers.get("vae") if self.config.keep_optimizer else None
        learned = [*self.encoder.parameters(), *self.decoder.parameters()]
        return self.problem.optimizer.build(learned) if kept is None else kept

    def finish_learning(self, examples: Examples) -> None:
        self.before = None

    def mechanisms(self) -> dict[str, str]:
        several = self.n_tasks > 1
        return {"replayed_reconstruction": "the replay that keeps the replay model itself"} if several else {}

    def count(self) -> int:
        return sum(p.numel() for net in (self.encoder, self.decoder) for p in net.parameters())


def encode(encoder: nn.Module, pixels: Tensor) -> tuple[Tensor, Tensor]:
    """Draw a latent vector for each input; return them and the mean divergence from the prior."""
    mean, log_variance = encoder(pixels).chunk(2, dim=1)
    noise = mean + torch.randn_like(mean) * (0.5 * log_variance).exp()
    divergence = -0.5 * (1 + log_variance - mean.square() - log_variance.exp()).sum(1).mean()
    return noise, divergence
