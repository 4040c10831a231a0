"""The buffers of a network as integers: statistics of batch norm rounded, all others byte for byte.

A variance keeps four binary digits after its leading one. A mean is a multiple of about a thirtieth of its channel's
deviation. The number of batches that a layer has seen is dropped if nothing depends on it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _NormBase

from mnemon.hypernet.target import Buffers
from mnemon.memory.code import LARGEST, Numbers

DROPPED = 19
"""Binary digits of a variance's float32 that are dropped, of 23."""
FINENESS = 5
"""A mean is a multiple of 2 ** -FINENESS deviations."""
LEAST_OCTAVE = -9
"""Of a deviation: batch norm itself adds a little to a variance."""
UNIT = 127 << 23 - DROPPED
"""A variance of 1; also the value for statistics that have not changed."""


@dataclass(frozen=True)
class RoundedBuffers:
    """Buffers as integers."""

    moved: Numbers
    variances: Numbers
    means: Numbers
    others: Numbers
    exact: bool


class BufferForm:
    """The buffers of the original module, and which of them are rounded."""

    def __init__(self, module: nn.Module):
        self.fresh: Buffers = {name: buffer.detach().cpu().clone() for name, buffer in module.named_buffers()}
        self.norms = [name for name, layer in _norms(module) if f"{name}running_var" in self.fresh]
        """Prefixes of the layers whose statistics are rounded."""
        self.channels = [self.fresh[f"{name}running_var"].numel() for name in self.norms]
        self._uncounted = {
            f"{name}num_batches_tracked" for name, layer in _norms(module) if layer.momentum is not None
        }

    @property
    def n_bytes(self) -> int:
        """Bytes of all buffers."""
        return sum(buffer.nbytes for buffer in self.fresh.values())

    def rounded(self, buffers: Mapping[str, Tensor]) -> RoundedBuffers:
        """Return buffers as integers; if some statistics cannot be rounded, all are stored exactly."""
        here = {name: buffer.detach().cpu() for name, buffer in buffers.items()}
        moved = np.array([self._has_moved(here, name) for name in self.norms], dtype=np.int64)
        statistics = [
            _statistics_of(here, name) if yes else _none(n)
            for name, yes, n in zip(self.norms, moved, self.channels, strict=True)
        ]
        variances, means = (_joined([pair[i] for pair in statistics]) for i in (0, 1))
        exact = bool((np.abs(means) > LARGEST // 2).any())
        if exact:
            moved, (variances, means) = 0 * moved, _none(len(variances))
        rounded = {f"{name}{kind}" for name in self.norms for kind in ("running_mean", "running_var") if not exact}
        as_it_came = self._uncounted | rounded
        others = [
            np.zeros(buffer.nbytes, dtype=np.int64)
            if name in as_it_came
            else _bytes(here[name]).astype(np.int64) - _bytes(buffer)
            for name, buffer in self.fresh.items()
        ]
        return RoundedBuffers(moved, variances, means, (_joined(others) + 128) % 256 - 128, exact)

    def restored(self, rounded: RoundedBuffers) -> Buffers:
        """Return the buffers that these integers represent."""
        found: Buffers = {}
        parts = np.split(rounded.others, np.cumsum([buffer.nbytes for buffer in self.fresh.values()])[:-1])
        for (name, buffer), part in zip(self.fresh.items(), parts, strict=False):
            changed = (_bytes(buffer).astype(np.int64) + part) % 256
            found[name] = buffer.clone()
            if buffer.numel():
                values = torch.frombuffer(bytearray(changed.astype(np.uint8).tobytes()), dtype=buffer.dtype)
                found[name].copy_(values.view(buffer.shape))
        ends = np.cumsum(self.channels)[:-1]
        pairs = zip(np.split(rounded.variances, ends), np.split(rounded.means, ends), strict=True)
        for name, moved, (variances, means) in zip(self.norms, rounded.moved, pairs, strict=False):
            if moved:
                _put(found, f"{name}running_var", _variance(variances))
                _put(found, f"{name}running_mean", means * _mean_step(variances))
        return found

    def _has_moved(self, buffers: Mapping[str, Tensor], name: str) -> bool:
        pair = (f"{name}running_mean", f"{name}running_var")
        return any(not torch.equal(buffers[each], self.fresh[each]) for each in pair)


def _norms(module: nn.Module) -> list[tuple[str, _NormBase]]:
    return [(f"{name}." if name else "", m) for name, m in module.named_modules() if isinstance(m, _NormBase)]


def _joined(parts: list[Numbers]) -> Numbers:
    return np.concatenate(parts) if parts else np.zeros(0, dtype=np.int64)


def _none(n: int) -> tuple[Numbers, Numbers]:
    return np.full(n, UNIT, dtype=np.int64), np.zeros(n, dtype=np.int64)


def _bytes(buffer: Tensor) -> NDArray[np.uint8]:
    return buffer.contiguous().flatten().view(torch.uint8).numpy()


def _statistics_of(buffers: Mapping[str, Tensor], name: str) -> tuple[Numbers, Numbers]:
    """Return the variances and means of a layer as integers; a mean that is not finite becomes too large a number."""
    bits = buffers[f"{name}running_var"].float().view(torch.int32).numpy().astype(np.int64)
    variances = (bits + (1 << DROPPED - 1)) >> DROPPED
    means = buffers[f"{name}running_mean"].double().numpy() / _mean_step(variances)
    means = np.where(np.isfinite(means), means, LARGEST)
    return variances, np.clip(np.rint(means), -LARGEST, LARGEST).astype(np.int64)


def _variance(numbers: Numbers) -> NDArray[np.float64]:
    bits = np.clip(numbers << DROPPED, -(2**31), 2**31 - 1).astype(np.int32)
    return bits.view(np.float32).astype(np.float64)


def _mean_step(variances: Numbers) -> NDArray[np.float64]:
    """Return the step sizes of the means: powers of two that depend on the exponents of the variances."""
    exponent = ((variances << DROPPED) >> 23 & 255) - 127
    return np.ldexp(1.0, (np.maximum(exponent // 2, LEAST_OCTAVE) - FINENESS).astype(np.int32))


def _put(buffers: Buffers, name: str, values: NDArray[np.float64]) -> None:
    like = buffers[name]
    buffers[name] = torch.from_numpy(values).to(like.dtype).view(like.shape)
