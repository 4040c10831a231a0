"""Change images at random, a whole batch at a time, on the device where they are."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor


@dataclass(frozen=True)
class FlipAndCrop:
    """Mirror half of the images, and cut each out of itself with a black frame: moved by up to `padding` pixels."""

    padding: int = 4

    def __call__(self, images: Tensor, random: torch.Generator) -> Tensor:
        """Return images of the same shape; the random numbers are the same on every device."""
        flip, top, left = self.draw(len(images), random)
        return self.apply(images, *(_move(choice, images.device) for choice in (flip, top, left)))

    def draw(self, n: int, random: torch.Generator) -> tuple[Tensor, Tensor, Tensor]:
        """Return for each image whether it is mirrored, and the first row and column to take."""
        flip = torch.randint(2, (n,), generator=random)
        top, left = torch.randint(2 * self.padding + 1, (2, n), generator=random)
        return flip, top, left

    def apply(self, images: Tensor, flip: Tensor, top: Tensor, left: Tensor) -> Tensor:
        """Return the images as they were drawn: one gather, of rows and columns that differ from image to image."""
        n, _, height, width = images.shape
        framed = F.pad(images, (self.padding,) * 4)
        rows = top[:, None] + torch.arange(height, device=images.device)
        columns = torch.arange(width, device=images.device).expand(n, -1)
        columns = left[:, None] + torch.where(flip[:, None] == 1, width - 1 - columns, columns)
        places = rows[:, :, None] * framed.shape[3] + columns[:, None, :]
        places = places.view(n, 1, -1).expand(-1, images.shape[1], -1)
        return framed.flatten(2).gather(2, places).view_as(images)


@dataclass(frozen=True, eq=False)
class Standardise:
    """Bring each channel to mean 0 and deviation 1, given what both are over a data set."""

    mean: Tensor
    std: Tensor

    def __call__(self, images: Tensor) -> Tensor:
        return (images - self.mean.to(images)[:, None, None]).div_(self.std.to(images)[:, None, None])

    def to(self, device: torch.device | str) -> Standardise:
        """Return the same on another device."""
        return Standardise(self.mean.to(device), self.std.to(device))


def _move(choice: Tensor, device: torch.device) -> Tensor:
    """Bring a few numbers to a device without waiting for it."""
    if device.type != "cuda":
        return choice.to(device)
    return choice.pin_memory().to(device, non_blocking=True)
