"""Fixed features of inputs: what the sums of a task are taken over.

Features are random, or those of a layer that never changes. They learn nothing but the scale of the first task's
inputs (and, of images, the usual patches), so that the sums of all tasks are over the same features.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn

Inputs = tuple[Tensor, ...]
"""The inputs of a module in the order of its arguments: usually one tensor."""
LONGEST = 4096
"""Numbers of an input that random features look at; longer inputs are folded to so many."""
AT_ONCE = 500
"""Inputs whose features are computed at once."""
FITTED_ON = 2000
"""Inputs of the first task by which the scale of the inputs is set."""
IN_CACHES = 50
"""Images whose convolutions fit into a core's caches."""
OF_PATCHES = 0.7
"""Share of the features of an image that are of its patches."""
LEAST_SIDE = 8
"""Height and width from which an input of three dimensions is taken for an image."""
MOST_SIDE = 64
"""Height or width above which an image is made smaller."""
PATCH, GRID = 6, 3
"""Side of the patches of an image, and cells along each side in which what is found is averaged."""
THUMBNAIL = 5
"""Height and width of the image made small."""
PATCHES = 50_000
"""Patches by which the filters are found."""
ROUNDS = 10
"""Rounds of k-means on them."""
THRESHOLD = 0.25
"""What a patch has to exceed to count for a filter."""
BUCKETS = 256
"""Numbers to which token ids are folded where no embedding is at hand."""


class AbstractFeatures(nn.Module, ABC):
    """Maps the inputs of a module to features [n, width]; what it keeps is in its buffers."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width

    @torch.no_grad()
    def fit(self, inputs: Inputs) -> None:
        """Set what depends on the data, by inputs of the first task."""

    def rebuild(self) -> None:
        """Compute what follows from the buffers and is not kept in them."""

    @abstractmethod
    def forward(self, inputs: Inputs) -> Tensor:
        """Return the features of some inputs."""

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Tensor:
        """Return the features of any number of inputs, computed in parts."""
        parts = zip(*(part.split(AT_ONCE) for part in inputs), strict=True)
        return torch.cat([self(part) for part in parts])


class RandomFeatures(AbstractFeatures):
    r"""Random ReLU features of inputs as vectors: $\max(0, W z + b)$, $z$ standardised by the first task.

    $W$ follows from the seed and is not kept.
    """

    mean: Tensor
    scale: Tensor
    seed: Tensor
    directions: Tensor
    offsets: Tensor

    def __init__(self, n_inputs: int, width: int, seed: int = 0):
        super().__init__(width)
        self.n_numbers = min(n_inputs, LONGEST)
        self.register_buffer("mean", torch.zeros(self.n_numbers))
        self.register_buffer("scale", torch.ones(()))
        self.register_buffer("seed", torch.tensor(seed))
        self.register_buffer("directions", torch.empty(0), persistent=False)
        self.register_buffer("offsets", torch.empty(0), persistent=False)
        self.rebuild()

    def rebuild(self) -> None:
        generator = torch.Generator().manual_seed(int(self.seed))
        directions = torch.randn(self.n_numbers, self.width, generator=generator) / math.sqrt(self.n_numbers)
        self.directions = directions.to(self.mean)
        self.offsets = 0.5 * torch.randn(self.width, generator=generator).to(self.mean)

    @torch.no_grad()
    def fit(self, inputs: Inputs) -> None:
        vectors = self._vectors(inputs)
        self.mean.copy_(vectors.mean(0))
        # One scale for all: one of each number would blow up what hardly varied in the first task.
        self.scale.copy_((vectors - self.mean).square().mean().sqrt().clamp_min(1e-6))

    def forward(self, inputs: Inputs) -> Tensor:
        vectors = (self._vectors(inputs) - self.mean) / self.scale
        return torch.addmm(self.offsets, vectors, self.directions).relu()

    def _vectors(self, inputs: Inputs) -> Tensor:
        vectors = _folded(torch.cat([numbers_of(part).to(self.mean) for part in inputs], dim=1))
        missing = self.n_numbers - vectors.shape[1]  # of inputs longer or shorter than those of the first task
        return F.pad(vectors, (0, missing)) if missing else vectors


def numbers_of(part: Tensor) -> Tensor:
    """Return inputs as vectors; whole numbers, such as token ids, by how often each is there, and where."""
    if part.is_floating_point() or part.dtype in (torch.uint8, torch.bool):
        return part.flatten(1)
    ids = part.flatten(1)
    places = torch.arange(ids.shape[1], device=ids.device)
    counts = torch.zeros(len(ids), 2 * BUCKETS, device=ids.device)
    ones = torch.ones(ids.shape, device=ids.device)
    counts.scatter_add_(1, ids % BUCKETS, ones)
    counts.scatter_add_(1, BUCKETS + (31 * ids + 17 * places) % BUCKETS, ones)
    return counts.log1p()


def n_numbers_of(shape: Sequence[int], is_whole: bool) -> int:
    """Return how long the vectors are that `numbers_of` makes of inputs of a shape."""
    return 2 * BUCKETS if is_whole else math.prod(shape)


def _folded(vectors: Tensor) -> Tensor:
    """Return vectors of at most LONGEST numbers: of longer ones, those at a distance of LONGEST are averaged."""
    n = vectors.shape[1]
    if n <= LONGEST:
        return vectors
    rounds = -(-n // LONGEST)
    return F.pad(vectors, (0, rounds * LONGEST - n)).view(len(vectors), rounds, LONGEST).sum(1) / math.sqrt(rounds)


class ConvolutionalFeatures(AbstractFeatures):
    r"""How much of each usual patch is in each part of an image, or of a series (Coates & Ng, 2012).

    Patches $p$ are brought to mean 0 and deviation 1 and whitened by $P$; filters $d_k$ are the directions of their
    k-means clusters, no patch itself. $\max(0, d_k P (p - m) - \theta)$ is averaged over the cells of a grid.
    """

    weight: Tensor
    bias: Tensor
    seed: Tensor

    def __init__(self, shape: Sequence[int], width: int, seed: int = 0):
        super().__init__(width)
        self.shape = tuple(shape)
        self.register_buffer("seed", torch.tensor(seed))
        sides = [min(side, MOST_SIDE if len(shape) > 2 else LONGEST) for side in shape[1:]]
        self.size = (shape[0], sides[-2] if len(sides) > 1 else 1, sides[-1])  # a series is an image of height 1
        self.patch = (min(PATCH, self.size[1]), min(PATCH, self.size[2]))
        rows, columns = (side - patch + 1 for side, patch in zip(self.size[1:], self.patch, strict=True))
        self.grid = (min(GRID, rows), min(GRID, columns))
        n_filters = -(-width // math.prod(self.grid))
        self.register_buffer("weight", torch.zeros(n_filters, shape[0], *self.patch))
        self.register_buffer("bias", torch.zeros(n_filters))

    @torch.no_grad()
    def fit(self, inputs: Inputs) -> None:
        generator = torch.Generator().manual_seed(int(self.seed))
        patches = _normal(_patches(self._images(inputs), self.patch, generator).cpu().double())
        mean = patches.mean(0)
        centred = patches - mean
        values, vectors = torch.linalg.eigh(centred.T @ centred / len(centred))
        whitener = vectors @ torch.diag((values + 0.1 * values.mean() + 1e-12).rsqrt()) @ vectors.T
        filters = _clusters((centred @ whitener).float(), len(self.weight), generator).double() @ whitener
        self.bias.copy_(-(filters @ mean))
        # A patch's own mean is taken off by the filter: so all of it is one convolution.
        self.weight.copy_((filters - filters.mean(1, keepdim=True)).view(self.weight.shape))

    def forward(self, inputs: Inputs) -> Tensor:
        images = self._images(inputs)
        found = F.conv2d(images, self.weight) / _deviations(images, self.patch)
        found = (found + (self.bias - THRESHOLD)[:, None, None]).relu_()
        return F.adaptive_avg_pool2d(found, self.grid).flatten(1)[:, : self.width]

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Tensor:
        return torch.cat([self((part,)) for part in inputs[0].split(IN_CACHES)])

    def _images(self, inputs: Inputs) -> Tensor:
        images = inputs[0].to(self.weight)
        images = (
            images.reshape(-1, *self.shape)
            if images[0].numel() == math.prod(self.shape)
            else _like(images, self.shape)
        )
        images = images[:, :, None] if images.ndim == 3 else images
        return F.adaptive_avg_pool2d(images, self.size[1:]) if images.shape[1:] != self.size else images


class Thumbnail(AbstractFeatures):
    """An image or a series itself, made small: how bright it is, and where."""

    def __init__(self, shape: Sequence[int]):
        self.sides = tuple(min(side, THUMBNAIL) for side in shape[1:])
        super().__init__(shape[0] * math.prod(self.sides))
        self.shape = tuple(shape)
        self.register_buffer("scale", torch.ones(()))
        self.scale: Tensor

    @torch.no_grad()
    def fit(self, inputs: Inputs) -> None:
        self.scale.copy_(inputs[0].to(self.scale).std().clamp_min(1e-6))

    def forward(self, inputs: Inputs) -> Tensor:
        return _like(inputs[0].to(self.scale), (self.shape[0], *self.sides)).flatten(1) / self.scale


class SeveralFeatures(AbstractFeatures):
    """Features of several kinds, mixed: the first of them alone are of all kinds, too."""

    order: Tensor

    def __init__(self, kinds: Sequence[AbstractFeatures]):
        super().__init__(sum(kind.width for kind in kinds))
        self.kinds = nn.ModuleList(kinds)
        generator = torch.Generator().manual_seed(0)
        self.register_buffer("order", torch.randperm(self.width, generator=generator), persistent=False)

    def fit(self, inputs: Inputs) -> None:
        for kind in self._kinds():
            kind.fit(inputs)

    def rebuild(self) -> None:
        for kind in self._kinds():
            kind.rebuild()

    def forward(self, inputs: Inputs) -> Tensor:
        return self._mixed([kind(inputs) for kind in self._kinds()])

    @torch.no_grad()
    def of(self, inputs: Inputs) -> Tensor:
        return self._mixed([kind.of(inputs) for kind in self._kinds()])

    def _mixed(self, found: list[Tensor]) -> Tensor:
        return torch.cat(found, dim=1)[:, self.order]

    def _kinds(self) -> list[AbstractFeatures]:
        return [kind for kind in self.kinds if isinstance(kind, AbstractFeatures)]


class LayerFeatures(AbstractFeatures):
    """What a function says of inputs, such as a layer of a network that never changes, brought to length 1 if wanted.

    It is turned by a random rotation, so that the first features alone are of the whole.
    """

    rotation: Tensor

    def __init__(self, run: Callable[[Inputs], Tensor], most: int, seed: int = 0, normal: bool = True):
        super().__init__(0)
        self._run, self._most, self._seed, self._normal = run, most, seed, normal
        self.register_buffer("rotation", torch.empty(0), persistent=False)

    @torch.no_grad()
    def fit(self, inputs: Inputs) -> None:
        self.turn_for(self._found(tuple(part[:2] for part in inputs)).shape[1])

    def turn_for(self, n_numbers: int) -> None:
        """Make the rotation for a layer of so many outputs."""
        self.n_numbers, self.width = n_numbers, min(n_numbers, self._most)
        generator = torch.Generator().manual_seed(self._seed)
        square = torch.randn(n_numbers, n_numbers, generator=generator)
        self.rotation = torch.linalg.qr(square).Q[:, : self.width].contiguous()

    def forward(self, inputs: Inputs) -> Tensor:
        found = self._found(inputs)
        return (F.normalize(found, dim=1) if self._normal else found) @ self.rotation

    def _found(self, inputs: Inputs) -> Tensor:
        found = self._run(inputs)
        # Of a sequence the mean over its steps, of a map of channels the mean over its places.
        found = found.mean(1) if found.ndim == 3 else found.flatten(2).mean(2) if found.ndim > 3 else found
        return _folded(found.reshape(len(found), -1).to(self.rotation.device, torch.float32))


def features_for(shape: Sequence[int], width: int, seed: int = 0) -> AbstractFeatures:
    """Return features of inputs of one shape: of images and series, two thirds of patches; of others, random ones."""
    n_inputs = math.prod(shape)
    if not is_image(shape):
        return RandomFeatures(n_inputs, width, seed)
    small = Thumbnail(shape)
    if small.width > width // 4:
        return RandomFeatures(n_inputs, width, seed)
    of_patches = round(width * OF_PATCHES)
    random = RandomFeatures(n_inputs, width - of_patches - small.width, seed)
    return SeveralFeatures([ConvolutionalFeatures(shape, of_patches, seed), random, small])


def is_image(shape: Sequence[int]) -> bool:
    """Tell whether inputs are taken for images (channels, height, width) or series (channels, length)."""
    return len(shape) in (2, 3) and min(shape[1:]) >= LEAST_SIDE


def _like(images: Tensor, shape: Sequence[int]) -> Tensor:
    """Return images of another size or number of channels than the first task's, brought to its form."""
    if images.ndim != len(shape) + 1:
        flat = images.flatten(1)
        return F.pad(flat, (0, math.prod(shape) - flat.shape[1])).reshape(-1, *shape)
    missing = shape[0] - images.shape[1]
    padded = F.pad(images, (*[0] * (2 * len(shape[1:])), 0, missing)) if missing else images
    if len(shape) == 2:
        return F.adaptive_avg_pool1d(padded, shape[1])
    return F.adaptive_avg_pool2d(padded, (shape[1], shape[2]))


def _patches(images: Tensor, size: Sequence[int], generator: torch.Generator) -> Tensor:
    """Return patches [n, channels x height x width] from anywhere in the images."""
    windows = images.unfold(2, size[0], 1).unfold(3, size[1], 1)
    which, top, left = (
        torch.randint(windows.shape[dim], (PATCHES,), generator=generator).to(images.device) for dim in (0, 2, 3)
    )
    return windows[which, :, top, left].flatten(1)


def _normal(patches: Tensor) -> Tensor:
    centred = patches - patches.mean(1, keepdim=True)
    return centred / (centred.square().mean(1, keepdim=True) + 0.01).sqrt()


def _deviations(images: Tensor, size: tuple[int, ...]) -> Tensor:
    """Return the deviation of each patch, all channels together."""
    mean = F.avg_pool2d(images.mean(1, keepdim=True), size, 1)
    square = F.avg_pool2d(images.square().mean(1, keepdim=True), size, 1)
    return ((square - mean.square()).clamp_min(0) + 0.01).sqrt()


def _clusters(points: Tensor, n: int, generator: torch.Generator) -> Tensor:
    """Return the directions of n clusters, by k-means on the sphere."""
    lengths = points.norm(dim=1)
    points = F.normalize(points[lengths > 0.5 * lengths.mean()], dim=1)
    if len(points) < n:
        points = F.normalize(torch.randn(max(n, 2), points.shape[1], generator=generator).to(points), dim=1)
    centres = points[torch.randperm(len(points), generator=generator)[:n]]
    for _ in range(ROUNDS):
        likeness, nearest = (points @ centres.T).max(1)
        sums = (1e-6 * centres).index_add(0, nearest, points * likeness[:, None])
        centres = F.normalize(sums, dim=1)
    return centres
