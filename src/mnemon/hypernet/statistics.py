"""What becomes of the statistics of batch norm where every task has a network of its own."""

from __future__ import annotations

from enum import Enum
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.modules.batchnorm import _BatchNorm

IDLE = 0.01
"""Share of the mean variance of a layer below which a channel counts as idle."""
REACH = 5.0
"""How far a generated 1 moves a statistic. From task to task statistics move much further than weights, and a linear
hypernetwork moves the outputs of all its chunks alike. (With 1 it did not reach the statistics of ResNet-32; with 10
those of earlier tasks drifted in a tiny network.)"""


class Statistics(str, Enum):
    """What batch norm goes by when a task's network is asked."""

    PER_TASK = "per-task"
    """Means and variances measured while the task was learned, and kept for each task: the paper's choice."""
    SHARED = "shared"
    """One set for all tasks, which goes on from task to task: earlier tasks answer with those of the newest, as where
    the paper only fine-tunes."""
    BATCH = "batch"
    """Those of the batch that is asked: nothing is kept, and an answer depends on the other inputs."""
    GENERATED = "generated"
    """Means and variances that are generated with the weights, as deviations from those of the first task: nothing is
    kept for a task."""


class Measured(NamedTuple):
    """A layer whose means and variances are generated."""

    path: str
    """Its path in the module, with a dot at the end."""
    width: int


def norms_of(module: nn.Module, resting: list[nn.Module]) -> dict[str, _BatchNorm]:
    """Return the batch norms with statistics, by their paths; not those that rest."""
    idle = {id(layer) for layer in resting}
    return {
        f"{path}." if path else "": layer
        for path, layer in module.named_modules()
        if isinstance(layer, _BatchNorm) and layer.running_mean is not None and id(layer) not in idle
    }


def forget_statistics(layer: _BatchNorm) -> None:
    """Let a batch norm always go by the batch that it sees."""
    layer.track_running_stats = False
    layer.running_mean = layer.running_var = layer.num_batches_tracked = None


class GeneratedStatistics:
    """The means and logarithms of variances of some layers, as a stretch of a flat vector."""

    def __init__(self, norms: dict[str, _BatchNorm]):
        self.layers = [Measured(path, layer.num_features) for path, layer in norms.items()]
        self.least = min((layer.eps for layer in norms.values()), default=0.0)
        self.size = 2 * sum(layer.width for layer in self.layers)
        self.buffers = {f"{path}{name}" for path, layer in norms.items() for name, _ in layer.named_buffers()}
        """Names of all buffers of these layers."""

    def read(self, flat: Tensor) -> dict[str, Tensor]:
        """Return the statistics by the names of the module's buffers."""
        found = {}
        parts = iter(flat.split([layer.width for layer in self.layers for _ in range(2)]))
        for layer in self.layers:
            found[f"{layer.path}running_mean"] = next(parts)
            found[f"{layer.path}running_var"] = next(parts).exp()
        return found

    def flat(self, measured: dict[str, Tensor]) -> Tensor:
        """Return what was measured, by the names of the module's buffers, as such a stretch.

        Variances below a share of their layer's mean are taken for that: of an idle channel there is little to know.
        """
        parts = []
        for layer in self.layers:
            variance = measured[f"{layer.path}running_var"]
            least = (IDLE * variance.mean()).clamp(min=self.least)
            parts += [measured[f"{layer.path}running_mean"], variance.maximum(least).log()]
        return torch.cat(parts)

    def around(self, centre: Tensor, deviations: Tensor) -> Tensor:
        """Return the stretch that lies so far from another; means by as many standard deviations of their layer."""
        units = [log.exp().mean().sqrt().expand_as(log) for log in self._logs(centre)]
        return centre + REACH * self._of_means(units) * deviations

    def distance(self, flat: Tensor, measured: dict[str, Tensor]) -> Tensor:
        r"""Return how far the stretch is from what was measured, averaged over the channels.

        $$\frac{1}{n} \sum_i \frac{(m_i - \mu_i)^2}{\sigma_i^2} + (s_i - \log \sigma_i^2)^2$$
        """
        with torch.no_grad():
            wanted = self.flat(measured)
            units = self._of_means([(log / 2).exp() for log in self._logs(wanted)])
        return ((flat - wanted) / units).square().sum() / (self.size / 2)

    def _logs(self, flat: Tensor) -> tuple[Tensor, ...]:
        """Return the logarithms of variances, layer by layer."""
        return flat.split([layer.width for layer in self.layers for _ in range(2)])[1::2]

    def _of_means(self, units: list[Tensor]) -> Tensor:
        """Return units, layer by layer, where means stand, and 1 where logarithms of variances do."""
        return torch.cat([part for unit in units for part in (unit, torch.ones_like(unit))])
