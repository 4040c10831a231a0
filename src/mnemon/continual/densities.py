"""A small density model of each task's inputs, to infer the task of an input."""

from __future__ import annotations

from dataclasses import replace

from mnemon.continual.auto_size import HELD_AT_ONCE, hypernet_for
from mnemon.continual.data import Inputs
from mnemon.errors import UsageError
from mnemon.inference.likelihood import DensityConfig, LikelihoodInference
from mnemon.memory.config import Sample
from mnemon.models.vae import DensityVAE
from mnemon.optimizer import OptimizerConfig
from mnemon.problem import pixels_of

DENSITY = DensityConfig(
    encoder=(64, 64), decoder=(64, 64), latent=8, clip=100.0, sample=Sample.ROWS, sample_size=HELD_AT_ONCE
)
"""The settings of the density model, except its size and beta."""
NUMBERS_PER_INPUT = DENSITY.encoder[0] + DENSITY.decoder[-1]
"""Weights of a density for each number of an input, at least."""


def densities_for(n_inputs: int, compression: float | None, beta: float, lr: float) -> LikelihoodInference:
    """Return an empty density inference for inputs of this many numbers."""
    form = DensityVAE(n_inputs, 1, DENSITY.encoder, DENSITY.decoder, DENSITY.latent)
    hypernet = hypernet_for(sum(p.numel() for p in form.parameters()), compression)
    config = replace(DENSITY, beta=beta, hypernet=hypernet)
    return LikelihoodInference(config, n_inputs, 1, OptimizerConfig(lr=lr), from_own=True)


def check_inputs(inputs: Inputs, known: int | None) -> None:
    """Refuse inputs that cannot have a density.

    If a module has several inputs, only the first is used. `known` is the size of an input of earlier tasks, if any.
    """
    first = inputs[0]
    if not first.is_floating_point():
        kind = str(first.dtype).removeprefix("torch.")
        raise UsageError(f"recognise='density' needs inputs of floats or bytes, not {kind}.")
    pixels_of(first)  # refuses what does not lie between 0 and 1
    n_inputs = first[0].numel()
    if known not in (None, n_inputs):
        raise UsageError(
            f"recognise='density' needs inputs of one size: these have {n_inputs} numbers instead of {known}."
        )
