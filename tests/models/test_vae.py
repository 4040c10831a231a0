"""The density of inputs: its bound beside hand-written twins."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor
from torch.distributions import Bernoulli, Normal

from mnemon.models.vae import DensityVAE

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def vae() -> DensityVAE:
    return DensityVAE(n_pixels=6, n_classes=3, encoder=(5,), decoder=(4, 5), latent=2)


@pytest.fixture
def inputs() -> tuple[Tensor, Tensor]:
    return (torch.rand(7, 6) > 0.5).double(), torch.eye(3)[torch.randint(3, (7,))]


def parts(vae: DensityVAE, pixels: Tensor, classes: Tensor, noise: Tensor):
    """The distributions of the bound, by torch's own classes, for one sample of noise."""
    mean, log_std = vae.encoder(torch.cat([pixels, classes], 1)).chunk(2, 1)
    posterior = Normal(mean, log_std.exp())
    z = mean + log_std.exp() * noise
    return posterior, z, Bernoulli(logits=vae.decoder(torch.cat([z, classes], 1)))


def test_for_one_sample_it_is_the_usual_bound(vae, inputs):
    noise = torch.randn(1, 7, 2)
    posterior, _, pixels_given_z = parts(vae, *inputs, noise[0])
    divergence = torch.distributions.kl_divergence(posterior, Normal(0.0, 1.0)).sum(1)
    wanted = pixels_given_z.log_prob(inputs[0]).sum(1) - divergence
    torch.testing.assert_close(vae(*inputs, noise), wanted)


def test_for_many_samples_it_is_the_importance_weighted_bound(vae, inputs):
    noise = torch.randn(5, 7, 2)
    each = []
    for sample in noise:
        posterior, z, pixels_given_z = parts(vae, *inputs, sample)
        log_p = pixels_given_z.log_prob(inputs[0]).sum(1) + Normal(0.0, 1.0).log_prob(z).sum(1)
        each.append(log_p - posterior.log_prob(z).sum(1))
    wanted = torch.stack(each).exp().mean(0).log()
    torch.testing.assert_close(vae(*inputs, noise), wanted)


@pytest.mark.parametrize("samples", [1, 2, 8])
def test_it_is_exact_where_the_latent_vector_says_nothing(samples, vae, inputs):
    for parameter in vae.parameters():
        parameter.data.zero_()  # the posterior is the prior, and every pixel a fair coin
    noise = torch.randn(samples, 7, 2)
    torch.testing.assert_close(vae(*inputs, noise), torch.full((7,), -6 * math.log(2)))


def test_noise_for_all_inputs_is_the_same_as_noise_repeated(vae, inputs):
    noise = torch.randn(4, 1, 2)
    torch.testing.assert_close(vae(*inputs, noise), vae(*inputs, noise.expand(-1, 7, -1)))
