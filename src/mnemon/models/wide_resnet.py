"""Wide residual networks (Zagoruyko & Komodakis, 2016): WRN-28-10 and its kin."""

from __future__ import annotations

from torch import Tensor, nn

from mnemon.models.images import ImageShape, as_images


class WideResNet(nn.Module):
    """One convolution, three stages of residual blocks of 16, 32 and 64 times `widen` channels, one linear layer.

    Depth 28 has four blocks per stage. Norms and activations stand before the convolutions.
    """

    def __init__(self, shape: ImageShape, outputs: int, depth: int = 28, widen: int = 10, bias: bool = False):
        super().__init__()
        self.shape = shape
        self.conv = nn.Conv2d(shape[0], 16, 3, padding=1, bias=bias)
        per_stage = (depth - 4) // 6
        widths = [width * widen for width in (16, 32, 64) for _ in range(per_stage)]
        before = [16, *widths]
        strides = [2 if i in (per_stage, 2 * per_stage) else 1 for i in range(len(widths))]
        self.blocks = nn.ModuleList(WideBlock(*sizes, bias) for sizes in zip(before, widths, strides, strict=False))
        self.norm = nn.BatchNorm2d(widths[-1])
        self.relu = nn.ReLU(inplace=True)
        self.head = nn.Linear(widths[-1], outputs)

    def forward(self, x: Tensor) -> Tensor:
        """Map images [n, channels, height, width] to outputs [n, outputs]."""
        x = self.conv(as_images(x, self.shape))
        for block in self.blocks:
            x = block(x)
        return self.head(self.relu(self.norm(x)).mean((2, 3)))


class WideBlock(nn.Module):
    """Two convolutions, each after a norm, beside a shortcut that is a 1 x 1 convolution where the width changes."""

    def __init__(self, inputs: int, width: int, stride: int, bias: bool):
        super().__init__()
        self.norm1 = nn.BatchNorm2d(inputs)
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=bias)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=bias)
        self.shortcut = nn.Identity() if inputs == width else nn.Conv2d(inputs, width, 1, stride=stride, bias=bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map feature maps to feature maps; a new width starts from the normed input, on both ways."""
        y = self.relu(self.norm1(x))
        beside = x if isinstance(self.shortcut, nn.Identity) else self.shortcut(y)
        y = self.conv2(self.relu(self.norm2(self.conv1(y))))
        return y + beside
