r"""A generative adversarial network with a protected generator for each task (Pearson chi-squared least squares).

$$L_D = \tfrac12 \mathrm{E}(D(x) - 1)^2 + \tfrac12 \mathrm{E}(D(G(z)) + 1)^2, \qquad
  L_G = \tfrac12 \mathrm{E}\, D(G(z))^2$$

Mao et al. (2017). Images are in [-1, 1] here, and scaled back before anybody else sees them.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from mnemon.errors import UsageError
from mnemon.optimizer import descend
from mnemon.problem import Batch, Problem, Terms, pixels_of
from mnemon.replay.config import GeneratorConfig
from mnemon.replay.generator import AbstractGenerator


class GAN(AbstractGenerator):
    """One discriminator for all tasks, which may forget, and a protected generator for each."""

    @dataclass(frozen=True)
    class Config(GeneratorConfig):
        """Settings of the source."""

        model: str = "gan"
        """The name of the source."""
        dropout: float = 0.4
        """Share of the discriminator's units that are left out in a step."""

        def __post_init__(self) -> None:
            super().__post_init__()
            if not 0 <= self.dropout < 1:
                raise UsageError(f"replay.dropout must be at least 0 and below 1, not {self.dropout}.")

    def __init__(self, config: Config, problem: Problem):
        super().__init__(config, problem, problem.initialise(_discriminator(problem.n_inputs, config)))

    def train_step(self, batch: Batch) -> Terms:
        if not self.learning:
            return {}
        real = 2 * pixels_of(batch.inputs) - 1
        noise = torch.randn(len(real), self.latent, device=real.device, dtype=real.dtype)
        fake = self.generator.present(noise).tanh()
        self.partner.train()
        of_real, of_fake = self.partner(torch.cat([real, fake.detach()])).chunk(2)
        discriminator_loss = 0.5 * ((of_real - 1).square().mean() + (of_fake + 1).square().mean())
        descend(self.optimizers["partner"], discriminator_loss)
        generator_loss = 0.5 * self.partner(fake).square().mean()
        terms = self.generator.memory.descend(generator_loss)
        penalty = {f"replay_{name}": value for name, value in terms.items()}
        losses = {"discriminator_loss": discriminator_loss.detach(), "generator_loss": generator_loss.detach()}
        return {**losses, **penalty}

    def decode(self, task_id: int, noise: Tensor) -> Tensor:
        return (self.generator.frozen(task_id, noise).tanh() + 1) / 2


def _discriminator(n_pixels: int, config: GAN.Config) -> nn.Module:
    widths = [n_pixels, *config.encoder]
    hidden: list[nn.Module] = []
    for a, b in itertools.pairwise(widths):
        hidden += [nn.Linear(a, b), nn.LeakyReLU(0.2), nn.Dropout(config.dropout)]
    return nn.Sequential(*hidden, nn.Linear(widths[-1], 1))
