"""Recognise the task of an input by sums over features of all tasks' inputs (HNET+STAT).

The sums are exact whatever is learned afterwards: nothing is trained, nothing is replayed, and no input is kept.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import UsageError
from mnemon.inference.base import AbstractInference, Ask
from mnemon.inference.features import FITTED_ON, features_for
from mnemon.inference.gaussian import SharedGaussian, best_sharpness
from mnemon.inference.sums import ClassSums, packed_size

CALIBRATED_ON = 2000
"""Training inputs of a task that are left out in turn to find how sharp probabilities are."""
BATCH = 2000
"""Inputs that are added up at once."""


@dataclass(frozen=True)
class SumsConfig:
    """The sums by which tasks are recognised."""

    width: int = 1000
    """Features that are added up; their Gram matrix takes 4 x width x (width + 1) bytes, whatever the tasks."""
    image: tuple[int, ...] = ()
    """Shape of inputs that are images as vectors, such as [1, 28, 28]; empty takes inputs as they come."""

    def __post_init__(self) -> None:
        if self.width < 1:
            raise UsageError(f"method.sums.width must be at least 1, not {self.width}.")
        if self.image and (len(self.image) not in (2, 3) or min(self.image) < 1):
            raise UsageError(
                f"method.sums.image must be [channels, height, width] or [channels, length], not {list(self.image)}."
            )


class KeptSums(nn.Module):
    """The sums of all tasks as parameters; they stay on the CPU in float64 wherever their owner moves."""

    def __init__(self, width: int):
        super().__init__()
        self.width = width
        self.gram = _kept(packed_size(width))
        self.counts, self.sums = nn.ParameterList(), nn.ParameterList()

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> KeptSums:
        return self

    def add_task(self, n_classes: int) -> None:
        """Make room for the classes of one more task."""
        self.counts.append(_kept(n_classes))
        self.sums.append(_kept(n_classes, self.width))

    @torch.no_grad()
    def add(self, task_id: int, found: ClassSums) -> None:
        """Add the sums of a task."""
        pairs = ((self.counts[task_id], found.counts), (self.sums[task_id], found.sums), (self.gram, found.gram))
        for kept, new in pairs:
            kept.add_(new)

    def of_all(self) -> ClassSums:
        """Return the sums over the classes of all tasks."""
        counts, sums = torch.cat(list(self.counts)), torch.cat(list(self.sums))
        return ClassSums(counts.detach(), sums.detach(), self.gram.detach())


class StatisticsInference(AbstractInference):
    """Scores a task by the probability of its classes under Gaussians with one covariance."""

    def __init__(self, config: SumsConfig, input_shape: tuple[int, ...], n_classes: int):
        super().__init__()
        shape = config.image or input_shape
        if torch.Size(shape).numel() != torch.Size(input_shape).numel():
            raise UsageError(f"method.sums.image is {list(shape)}, and an input has shape {list(input_shape)}.")
        self.n_classes = n_classes
        self.features = features_for(shape, config.width, seed=int(torch.randint(2**31, ())))
        self.kept = KeptSums(config.width)
        self.sharpness = nn.ParameterList()
        """For each task, how sharp the probabilities of its classes were right after it."""
        self._asked: SharedGaussian | None = None

    @torch.no_grad()
    def finish_learning(self, examples: Examples) -> None:
        task_id = self.n_begun - 1
        if task_id == 0:
            self.features.fit((_inputs_of(examples, torch.randperm(len(examples))[:FITTED_ON]),))
        batches = (
            (self.features.of((inputs,)), targets)
            for inputs, targets in map(examples.batch, _slices(len(examples), BATCH))
        )
        self.kept.add(task_id, ClassSums.over(batches, self.n_classes))
        self._asked = None
        picked = torch.randperm(len(examples))[:CALIBRATED_ON]
        features = self.features.of((_inputs_of(examples, picked),))
        classes = examples.targets[picked.to(examples.device)].cpu() + task_id * self.n_classes
        gaussian = self.gaussian()
        found = best_sharpness(gaussian, gaussian.distances_left_out(features, classes), classes)
        self.sharpness[task_id].fill_(found)

    @torch.no_grad()
    def class_scores(self, inputs: Tensor) -> Tensor:
        """Return the log probability of each class of each task [n, tasks x classes], on the CPU in float64."""
        if not any(bool(counts.any()) for counts in self.kept.counts):
            return torch.zeros(len(inputs), self.n_begun * self.n_classes, dtype=torch.float64)
        gaussian, ended = self.gaussian(), [float(s) for s in self.sharpness if float(s) > 0]
        sharpness = float(torch.tensor(ended).log().mean().exp())
        return gaussian.log_probability(gaussian.distances(self.features.of((inputs,))), sharpness)

    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        found = self.class_scores(inputs)
        by_task = found.view(len(found), self.n_begun, self.n_classes).logsumexp(2)
        return by_task.float().to(inputs.device)

    def gaussian(self) -> SharedGaussian:
        """Return the Gaussians of all classes so far; they are computed when they are first asked for."""
        if self._asked is None or len(self._asked.n_classes) != self.n_begun:
            self._asked = SharedGaussian(self.kept.of_all(), [self.n_classes] * self.n_begun)
        return self._asked

    def add_task(self) -> None:
        self.kept.add_task(self.n_classes)
        self.sharpness.append(nn.Parameter(torch.zeros(()), requires_grad=False))
        self._asked = None

    def rebuild(self) -> None:
        self.features.rebuild()
        self._asked = None

    def count(self) -> int:
        return sum(tensor.numel() for tensor in self._shared())

    @property
    def nbytes_shared(self) -> int:
        return sum(tensor.nbytes for tensor in self._shared())

    def _shared(self) -> list[Tensor]:
        return [self.kept.gram, *self.features.state_dict().values()]

    @property
    def numel_per_task(self) -> int:
        return self.n_classes * (self.kept.width + 1) + 1

    @property
    def nbytes_per_task(self) -> int:
        return 8 * self.n_classes * (self.kept.width + 1) + 4


def _kept(*size: int) -> nn.Parameter:
    return nn.Parameter(torch.zeros(size, dtype=torch.float64), requires_grad=False)


def _inputs_of(examples: Examples, index: Tensor) -> Tensor:
    inputs: Any = examples.batch(index.to(examples.device))[0]
    return inputs if isinstance(inputs, Tensor) else inputs[0]


def _slices(n: int, size: int) -> list[slice]:
    return [slice(start, start + size) for start in range(0, n, size)]
