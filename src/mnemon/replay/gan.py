r"""A generative adversarial network with a protected generator for each task (Pearson chi-squared least squares).

$$L_D = \tfrac12 \mathrm{E}(D(x) - 1)^2 + \tfrac12 \mathrm{E}(D(G(z)) + 1)^2, \qquad
  L_G = \tfrac12 \mathrm{E}\, D(G(z))^2$$

Mao et al. (2017). Images are in [-1, 1] here, and scaled back before anybody else sees them.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor, nn

from mnemon.models.init import xavier
from mnemon.problem import Batch, Problem, Terms
from mnemon.replay.config import ReplayConfig
from mnemon.replay.generator import ProtectedGenerator
from mnemon.replay.source import AbstractGenerator, Replayed, draw_by_task
from mnemon.replay.vae import pixels_of


class GAN(AbstractGenerator):
    """One discriminator for all tasks, which may forget, and a protected generator for each."""

    def __init__(self, config: ReplayConfig, problem: Problem):
        super().__init__()
        self.latent, self.problem = config.latent, problem
        widths = [problem.n_inputs, *config.encoder]
        hidden: list[nn.Module] = []
        for a, b in itertools.pairwise(widths):
            hidden += [nn.Linear(a, b), nn.LeakyReLU(0.2), nn.Dropout(config.dropout)]
        self.discriminator = xavier(nn.Sequential(*hidden, nn.Linear(widths[-1], 1)))
        self.generator = ProtectedGenerator(
            config.latent,
            config.condition,
            config.condition_size,
            config.decoder,
            problem.n_inputs,
            config.tasks_to_learn(problem.n_tasks),
            config,
            problem.optimizer,
        )

    @property
    def n_ready(self) -> int:
        return self.generator.n_ready

    def train_step(self, batch: Batch) -> Terms:
        if not self.generator.memory.learning:
            return {}
        real = 2 * pixels_of(batch.inputs) - 1
        noise = torch.randn(len(real), self.latent, device=real.device, dtype=real.dtype)
        fake = self.generator.present(noise).tanh()
        self.discriminator.train()
        of_real, of_fake = self.discriminator(torch.cat([real, fake.detach()])).chunk(2)
        discriminator_loss = 0.5 * ((of_real - 1).square().mean() + (of_fake + 1).square().mean())
        optimizer = self.optimizers["discriminator"]
        optimizer.zero_grad()
        discriminator_loss.backward()
        optimizer.step()
        generator_loss = 0.5 * self.discriminator(fake).square().mean()
        terms = self.generator.memory.descend(generator_loss)
        penalty = {f"replay_{name}": value for name, value in terms.items()}
        losses = {"discriminator_loss": discriminator_loss.detach(), "generator_loss": generator_loss.detach()}
        return {**losses, **penalty}

    def draw(self, n: int, tasks: Sequence[int]) -> Replayed:
        return draw_by_task(self, n, tasks, self.generator.conditions)

    def decode(self, task_id: int, noise: Tensor) -> Tensor:
        return (self.generator.frozen(task_id, noise).tanh() + 1) / 2

    def start_learning(self) -> None:
        if self.generator.memory.learning:
            self.optimizers = {"discriminator": self.problem.optimizer.build(self.discriminator.parameters())}

    def count(self) -> int:
        return sum(p.numel() for p in self.discriminator.parameters()) + self.generator.memory.hypernet.count()

    @property
    def numel_per_task(self) -> int:
        return self.generator.numel_per_task
