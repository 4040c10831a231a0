"""Record files, the binary format of CIFAR: for each image its label bytes, then the red, green and blue plane."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

SHAPE = (3, 32, 32)
PIXELS = 3 * 32 * 32


@dataclass(frozen=True)
class RecordFile:
    """What a file of records must hold."""

    name: str
    n_images: int
    n_labels: int
    """Label bytes of an image; the last one is its class (CIFAR-100 has a coarse one before)."""
    md5: str

    @property
    def header(self) -> bytes:
        """There is none."""
        return b""

    @property
    def size(self) -> int:
        """Bytes of the content."""
        return self.n_images * (self.n_labels + PIXELS)


def records(content: bytearray, file: RecordFile) -> tuple[Tensor, Tensor]:
    """Return images and labels, as views of the content."""
    import torch

    rows = torch.frombuffer(content, dtype=torch.uint8).view(file.n_images, file.n_labels + PIXELS)
    return rows[:, file.n_labels :].unflatten(1, SHAPE), rows[:, file.n_labels - 1]


def tensors(contents: Sequence[bytearray], files: Sequence[RecordFile]) -> tuple[Tensor, ...]:
    """Return training images and labels, then test images and labels; the last file is the test set."""
    import torch

    *train, test = (records(content, file) for content, file in zip(contents, files, strict=True))
    images, labels = (torch.cat(parts) for parts in zip(*train, strict=True))
    return images, labels, *(part.contiguous() for part in test)
