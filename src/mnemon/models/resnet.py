"""Residual networks for small images (He et al., 2016, section 4.2): ResNet-32 and its kin."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch.nn.functional as F
from torch import Tensor, nn

from mnemon.models.images import ImageShape, as_images

WIDTHS = (16, 32, 64)


class Residual(nn.Module):
    """One convolution, residual blocks of given widths, one linear layer."""

    def __init__(
        self,
        shape: ImageShape,
        outputs: int,
        widths: Sequence[int],
        block: Callable[[int, int, bool], nn.Module],
        bias: bool,
    ):
        super().__init__()
        self.shape = shape
        self.conv = nn.Conv2d(shape[0], widths[0], 3, padding=1, bias=bias)
        self.norm = nn.BatchNorm2d(widths[0])
        self.relu = nn.ReLU(inplace=True)
        before = [widths[0], *widths]
        self.blocks = nn.ModuleList(block(a, b, bias) for a, b in zip(before, widths, strict=False))
        self.head = nn.Linear(widths[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [n, channels, height, width] to outputs [n, outputs]."""
        x = self.relu(self.norm(self.conv(as_images(x, self.shape))))
        for block in self.blocks:
            x = block(x)
        return self.head(x.mean((2, 3)))


class ResNet(Residual):
    """Three stages of residual blocks of 16, 32 and 64 channels.

    Five blocks per stage make ResNet-32. Shortcuts have no weights: where a stage begins, every second pixel is taken
    and channels of zeros are added. The paper's network has biases in its convolutions.
    """

    def __init__(self, shape: ImageShape, outputs: int, blocks_per_stage: int = 5, bias: bool = True):
        super().__init__(
            shape, outputs, [width for width in WIDTHS for _ in range(blocks_per_stage)], ResidualBlock, bias
        )


class ResidualBlock(nn.Module):
    """Two convolutions beside a shortcut without weights."""

    def __init__(self, inputs: int, width: int, bias: bool):
        super().__init__()
        self.stride = 1 if inputs == width else 2
        self.missing = width - inputs
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=self.stride, padding=1, bias=bias)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=bias)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)

    def forward(self, x: Tensor) -> Tensor:
        """Map feature maps to feature maps."""
        y = self.relu(self.norm1(self.conv1(x)))
        y = self.norm2(self.conv2(y))
        if self.missing:
            x = F.pad(x[:, :, :: self.stride, :: self.stride], (0, 0, 0, 0, 0, self.missing))
        return self.relu(y + x)
