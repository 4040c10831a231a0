"""What networks for images ask of their inputs."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from mnemon.errors import UsageError

ImageShape = tuple[int, int, int]
"""Channels, height, width."""


def image_shape(input_shape: tuple[int, ...], network: str) -> ImageShape:
    """Return inputs of a shape as images: as they are, or vectors as grey square ones."""
    if len(input_shape) == 3:
        return input_shape
    side = math.isqrt(input_shape[0]) if len(input_shape) == 1 else 0
    if side < 2 or side * side != input_shape[0]:
        raise UsageError(
            f"The network '{network}' takes images (channels, height, width); inputs of this benchmark have shape "
            f"{input_shape}: take target.network=mlp."
        )
    return 1, side, side


def check_side(shape: ImageShape, least: int, network: str) -> None:
    """Refuse images of which a network without padding would leave nothing."""
    _, height, width = shape
    if min(height, width) < least:
        raise UsageError(
            f"{network} takes images of at least {least} x {least} pixels; these have {height} x {width}: take "
            "target.network=mlp or resnet32, or a larger benchmark.padding where the benchmark has one."
        )


def as_images(x: Tensor, shape: ImageShape) -> Tensor:
    """Return inputs [n, ...] as images in the order of memory in which convolutions are fastest."""
    return x.reshape(-1, *shape).contiguous(memory_format=torch.channels_last)
