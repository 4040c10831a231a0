"""ResNet-18 (He et al., 2016) as it is used on small images: a 3 x 3 convolution at the entrance, and no pooling."""

from __future__ import annotations

from torch import Tensor, nn

from mnemon.models.images import ImageShape
from mnemon.models.resnet import Residual


class ResNet18(Residual):
    """Four stages of two residual blocks; shortcuts to stages have weights."""

    def __init__(self, shape: ImageShape, outputs: int, width: int = 64, bias: bool = False):
        widths = [width * factor for factor in (1, 1, 2, 2, 4, 4, 8, 8)]
        super().__init__(shape, outputs, widths, ProjectedBlock, bias)


class ProjectedBlock(nn.Module):
    """Two convolutions beside a shortcut, which is a 1 x 1 convolution where the width changes."""

    def __init__(self, inputs: int, width: int, bias: bool):
        super().__init__()
        stride = 1 if inputs == width else 2
        self.conv1 = nn.Conv2d(inputs, width, 3, stride=stride, padding=1, bias=bias)
        self.norm1 = nn.BatchNorm2d(width)
        self.conv2 = nn.Conv2d(width, width, 3, padding=1, bias=bias)
        self.norm2 = nn.BatchNorm2d(width)
        self.relu = nn.ReLU(inplace=True)
        self.shortcut = nn.Identity() if inputs == width else projection(inputs, width, stride, bias)

    def forward(self, x: Tensor) -> Tensor:
        """Map feature maps to feature maps."""
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.shortcut(x))


def projection(inputs: int, width: int, stride: int, bias: bool) -> nn.Module:
    """Return a 1 x 1 convolution with its norm."""
    return nn.Sequential(nn.Conv2d(inputs, width, 1, stride=stride, bias=bias), nn.BatchNorm2d(width))
