"""LeNet (LeCun et al., 1998) in the form of today's libraries: rectifiers, pooling by the largest value."""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.models.images import ImageShape, as_images, check_side

LEAST = 16
"""Pixels on a side of the smallest image of which the convolutions leave something."""


class LeNet(nn.Module):
    """Two 5 x 5 convolutions of 20 and 50 channels, each pooled, a hidden layer of 500, one more."""

    def __init__(self, shape: ImageShape, outputs: int):
        super().__init__()
        check_side(shape, LEAST, "LeNet")
        self.shape = shape
        channels, height, width = shape
        self.conv1 = nn.Conv2d(channels, 20, 5)
        self.conv2 = nn.Conv2d(20, 50, 5)
        self.hidden = nn.Linear(50 * _side(height) * _side(width), 500)
        self.head = nn.Linear(500, outputs)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [n, channels, height, width] to outputs [n, outputs]."""
        x = F.max_pool2d(self.relu(self.conv1(as_images(x, self.shape))), 2)
        x = F.max_pool2d(self.relu(self.conv2(x)), 2)
        return self.head(self.relu(self.hidden(x.flatten(1))))


def _side(pixels: int) -> int:
    return ((pixels - 4) // 2 - 4) // 2
