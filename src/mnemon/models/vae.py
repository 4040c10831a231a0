r"""A small variational autoencoder as a density: it gives a lower bound of $\log p(x \mid y)$ for each input.

$$\log p(x|y) \ge \log \frac1K \sum_k \frac{p(x|z_k, y) \, p(z_k)}{q(z_k|x, y)}, \qquad z_k \sim q(z|x, y)$$

Burda et al. (2016); for one sample the usual bound, with its divergence from the prior in closed form. Pixels are
Bernoulli, their grey values the probabilities.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.models.mlp import MLP

SPREAD = (-6.0, 3.0)
"""Range of the log standard deviations of q(z|x, y): beyond it, single inputs could send the bound to infinity."""


class DensityVAE(nn.Module):
    """Encoder and decoder, both told the class y as a one-hot vector."""

    def __init__(self, n_pixels: int, n_classes: int, encoder: Sequence[int], decoder: Sequence[int], latent: int):
        super().__init__()
        self.encoder = MLP((n_pixels + n_classes,), encoder, 2 * latent, nn.ReLU)
        self.decoder = MLP((latent + n_classes,), decoder, n_pixels, nn.ReLU)

    def forward(self, pixels: Tensor, classes: Tensor, noise: Tensor) -> Tensor:
        """Return the bound [n] for pixels [n, d], one-hot classes [n, c] and noise [samples, n or 1, latent]."""
        mean, log_std = self.encoder(torch.cat([pixels, classes], dim=1)).chunk(2, dim=1)
        log_std = log_std.clamp(*SPREAD)
        z = mean + log_std.exp() * noise  # [samples, n, latent]
        inputs = torch.cat([z, classes.expand(len(noise), -1, -1)], dim=2)
        logits = self.decoder(inputs.flatten(0, 1)).view(len(noise), *pixels.shape)
        log_likelihood = (logits * pixels).sum(2) - F.softplus(logits).sum(2)
        if len(noise) == 1:
            divergence = 0.5 * (mean.square() + (2 * log_std).exp() - 1 - 2 * log_std).sum(1)
            return log_likelihood[0] - divergence
        log_weights = log_likelihood + (0.5 * noise.square() - 0.5 * z.square() + log_std).sum(2)
        return log_weights.logsumexp(0) - math.log(len(noise))
