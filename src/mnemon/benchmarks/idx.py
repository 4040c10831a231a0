"""IDX files, the format of MNIST."""

from __future__ import annotations

import math
import struct
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torch import Tensor

UNSIGNED_BYTES = 0x08


@dataclass(frozen=True)
class IdxFile:
    """What an IDX file of bytes must hold."""

    name: str
    """Without the ending .gz."""
    shape: tuple[int, ...]
    md5: str
    """Of the decompressed content: mirrors and packages differ in their gzip headers."""

    @property
    def header(self) -> bytes:
        """Two zeros, the type, the number of dimensions, then each dimension as a big-endian integer."""
        return struct.pack(f">HBB{len(self.shape)}I", 0, UNSIGNED_BYTES, len(self.shape), *self.shape)

    @property
    def size(self) -> int:
        """Bytes of the decompressed content."""
        return len(self.header) + math.prod(self.shape)


def tensor(content: bytearray, file: IdxFile) -> Tensor:
    """Return the values as a tensor of bytes that shares the content's memory."""
    import numpy as np
    import torch

    values = np.frombuffer(content, dtype=np.uint8, offset=len(file.header))
    return torch.from_numpy(values.reshape(file.shape))


def tensors(contents: Sequence[bytearray], files: Sequence[IdxFile]) -> tuple[Tensor, ...]:
    """Return training images and labels, test images and labels."""
    return tuple(tensor(content, file) for content, file in zip(contents, files, strict=True))
