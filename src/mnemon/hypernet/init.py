r"""Initial values of a hypernetwork: Xavier, as in the paper's experiments, or hyperfan.

Hyperfan initialisation (Chang, Flokas & Lipson, 2020) gives the *generated* weights the variance that a plain
network would start with, $v = 2 / \text{fan-in}$ for a rectifier and $1 / \text{fan-in}$ otherwise:

- a full hypernetwork scales the readout tensor by tensor, $\mathrm{Var}(R) = v / \sum_k \mathrm{E}[h_k^2]$;
- a chunked one shares its readout among all chunks, so the chunk embeddings carry the scale: the norm of
  $c_i$ makes, in expectation, $\mathrm{Var}(R) (\lVert e \rVert^2 + \lVert c_i \rVert^2)$ the mean variance wanted in
  chunk i (for a linear hypernetwork; a first-order account for a deeper one).

Biases and other vectors have no fan-in: a full hypernetwork starts biases at 0 and scales (batch norm) at the
module's own value; in a chunked one they share their chunk's scale. Random numbers come from
torch's global generator.
"""

from __future__ import annotations

import math
from enum import Enum

import torch
from torch import Tensor, nn

from mnemon.hypernet.base import AbstractHypernet
from mnemon.hypernet.chunked import ChunkedHypernet
from mnemon.hypernet.target import Slot, Target


class Init(str, Enum):
    """How a hypernetwork starts."""

    XAVIER = "xavier"
    """Xavier-uniform matrices, biases 0, chunk embeddings N(0, 1): the paper's experiments."""
    XAVIER_CHUNKS = "xavier-chunks"
    """As xavier, and so the chunk embeddings, as one matrix [chunks, size]: they start close to each other."""
    HYPERFAN = "hyperfan"
    """Generated weights start with the variance of a plainly initialised target."""


class ChunkInit(str, Enum):
    """How chunk embeddings start."""

    NORMAL = "normal"
    """Drawn from N(0, 1), or as `init` says."""
    ORTHOGONAL = "orthogonal"
    """Of length 1 on average and orthogonal, or as nearly as their length allows: a step of one chunk's weights moves
    the others' little."""


def initialise(
    hypernet: AbstractHypernet, target: Target, init: Init, chunk_init: ChunkInit = ChunkInit.NORMAL
) -> None:
    """Set all parameters of a hypernetwork."""
    for layer in hypernet.layers:
        assert isinstance(layer, nn.Linear)
        nn.init.xavier_uniform_(layer.weight)
        nn.init.zeros_(layer.bias)
    nn.init.xavier_uniform_(hypernet.readout.data[:-1])
    nn.init.zeros_(hypernet.readout.data[-1])
    if isinstance(hypernet, ChunkedHypernet):
        draw = nn.init.xavier_uniform_ if init is Init.XAVIER_CHUNKS else nn.init.normal_
        draw(hypernet.chunk_embeddings)
        if chunk_init is ChunkInit.ORTHOGONAL:
            _make_orthogonal(hypernet.chunk_embeddings)
    if init is Init.HYPERFAN:
        scale = _scale_chunk_embeddings if isinstance(hypernet, ChunkedHypernet) else _scale_readout
        scale(hypernet, target)  # type: ignore[arg-type]


@torch.no_grad()
def _make_orthogonal(embeddings: Tensor) -> None:
    """Draw rows of length 1 that are orthogonal; of more rows than columns, columns that are."""
    n, size = embeddings.shape
    nn.init.orthogonal_(embeddings, gain=max(1.0, math.sqrt(n / size)))


def new_embedding(size: int, scale: float = 1.0) -> Tensor:
    """Draw a task embedding from a normal distribution with mean 0."""
    return scale * torch.randn(size)


def simplex_corner(size: int, i: int) -> Tensor:
    """Return corner i of `size` + 1 points at equal distances, each of squared length `size`.

    With a 1 appended they are orthogonal: a linear hypernetwork can give each of them any weights.
    """
    if i == size:
        return torch.ones(size)
    corner = torch.full((size,), -(math.sqrt(size + 1) + 1) / size)
    corner[i] += math.sqrt(size + 1)
    return corner


def variance_to_aim_for(slot: Slot, module: nn.Module) -> float | None:
    """Return the variance that a tensor of the target should start with; None if it has no fan-in."""
    if len(slot.shape) < 2:
        return None
    gain = 2.0 if any(isinstance(m, nn.ReLU) for m in module.modules()) else 1.0
    return gain / math.prod(slot.shape[1:])


@torch.no_grad()
def _scale_readout(hypernet: AbstractHypernet, target: Target) -> None:
    embeddings = torch.randn(1024, hypernet.embedding_size, dtype=hypernet.readout.dtype)
    h = hypernet.features(embeddings, torch.zeros(1024, dtype=torch.long))
    power = float(h.square().sum(1).mean())
    parameters = dict(target.module.named_parameters())
    for slot in target.slots:
        columns = hypernet.readout[:, slot.start : slot.stop]
        variance = variance_to_aim_for(slot, target.module)
        columns.zero_()
        if variance is not None:
            columns[:-1].normal_(0.0, math.sqrt(variance / power))
        elif not slot.name.endswith("bias"):
            columns[-1] = parameters[slot.name].flatten()


@torch.no_grad()
def _scale_chunk_embeddings(hypernet: ChunkedHypernet, target: Target) -> None:
    wanted = torch.full((hypernet.size,), math.nan)
    for slot in target.slots:
        variance = variance_to_aim_for(slot, target.module)
        if variance is not None:
            wanted[slot.start : slot.stop] = variance
    per_chunk = torch.stack([part.nanmean() for part in wanted.tensor_split(hypernet.edges[1:-1])])
    if per_chunk.isnan().all():
        return  # vectors alone: there is no fan-in to go by
    per_chunk = torch.where(per_chunk.isnan(), per_chunk.nanmean(), per_chunk)  # chunks of vectors alone
    task_power = float(hypernet.embedding_size)
    # Half of the smallest variance comes from the task embedding, so that every chunk has room for its own.
    unit = float(per_chunk.min()) / (2 * task_power)
    gain = _feature_gain(hypernet)
    hypernet.readout[:-1].normal_(0.0, math.sqrt(unit / gain))
    power = (per_chunk / unit - task_power).to(hypernet.chunk_embeddings)
    size = hypernet.chunk_embeddings.shape[1]
    hypernet.chunk_embeddings.normal_()
    hypernet.chunk_embeddings.mul_((power / size).sqrt()[:, None])


def _feature_gain(hypernet: ChunkedHypernet) -> float:
    """Return how much the feature layers change the power of a row of unit variance."""
    width = hypernet.embedding_size + hypernet.chunk_embeddings.shape[1]
    rows = h = torch.randn(1024, width, dtype=hypernet.readout.dtype)
    for layer in hypernet.layers:
        h = hypernet.activation(layer(h))
    return float(h.square().sum() / rows.square().sum())
