"""The convolutional network of Zenke et al. (2017) for CIFAR."""

from __future__ import annotations

from torch import Tensor, nn

from mnemon.models.images import ImageShape, as_images, check_side

LEAST = 10
"""Pixels on a side of the smallest image of which the convolutions leave something."""


class ZenkeNet(nn.Module):
    """Two pairs of convolutions (32 and 64 channels) with pooling and dropout, a hidden layer of 512, one more."""

    def __init__(self, shape: ImageShape, outputs: int):
        super().__init__()
        check_side(shape, LEAST, "ZenkeNet")
        self.shape = shape
        channels, height, width = shape
        self.features = nn.Sequential(*_pair(channels, 32), *_pair(32, 64), nn.Flatten())
        pixels = _after_pair(_after_pair(height)) * _after_pair(_after_pair(width))
        self.hidden = nn.Linear(64 * pixels, 512)
        self.dropout = nn.Dropout(0.5)
        self.head = nn.Linear(512, outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [n, channels, height, width] to outputs [n, outputs]."""
        return self.head(self.dropout(self.hidden(self.features(as_images(x, self.shape))).relu()))


def _pair(inputs: int, width: int) -> list[nn.Module]:
    """Return two convolutions, of which the first keeps the size, then pooling and dropout of whole channels."""
    return [
        nn.Conv2d(inputs, width, 3, padding=1),
        nn.ReLU(inplace=True),
        nn.Conv2d(width, width, 3),
        nn.ReLU(inplace=True),
        nn.MaxPool2d(2),
        nn.Dropout2d(0.25),
    ]


def _after_pair(side: int) -> int:
    return (side - 2) // 2
