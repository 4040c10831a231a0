r"""Several ways to score tasks, put together: a weighted sum of their log scores.

$$S_t(x) = \sum_k w_k S^k_t(x)$$

The weights are those with which the right task of a task's own training inputs is likeliest, among the tasks so far;
each task finds its own, and their mean counts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from enum import Enum

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.inference.base import AbstractInference, Ask
from mnemon.inference.entropy import entropy
from mnemon.lifecycle import TaskModule
from mnemon.problem import Batch, Terms

CALIBRATED_ON = 1000
"""Training inputs of a task by which the weights are found."""
PRIOR = 0.01
"""How firmly weights are held at 1, for each input: where all tasks are told apart, any weight would do."""
STEPS = 30
"""Steps of Newton's method, at most."""


class Combine(str, Enum):
    """What is added to the statistics."""

    NONE = "none"
    """Nothing: the statistics alone."""
    ENTROPY = "entropy"
    """How sure each task's network is, beside its usual sureness."""
    LIKELIHOOD = "likelihood"
    """How likely the input is under a density of each task, which is learned, too."""


class UsualEntropy(AbstractInference):
    """Scores a task by how sure its network is, beside how sure it is of the task's own training inputs."""

    def __init__(self, ask: Callable[[Tensor], Ask]):
        super().__init__()
        self._ask = ask
        self.usual = nn.ParameterList()
        """Mean and deviation of the log entropy of each task's own inputs."""

    def add_task(self) -> None:
        self.usual.append(nn.Parameter(torch.tensor([0.0, 1.0]), requires_grad=False))

    @torch.no_grad()
    def finish_learning(self, examples: Examples) -> None:
        task_id, inputs = self.n_begun - 1, _some(examples)
        found = log_entropy(self._ask(inputs)(task_id))
        self.usual[task_id].copy_(torch.stack([found.mean(), found.std().clamp_min(1e-3)]))

    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        each = []
        for task_id, (mean, deviation) in enumerate(usual.tolist() for usual in self.usual):
            each.append((mean - log_entropy(ask(task_id))) / deviation)
        return torch.stack(each, dim=1).float()

    @property
    def numel_per_task(self) -> int:
        return 2


class Weights(TaskModule):
    """The weights of several scores, which each task finds when it ends: after them, since it is made after them."""

    def __init__(self, ways: Sequence[AbstractInference], ask: Callable[[Tensor], Ask]):
        super().__init__()
        self._ways, self._ask = lambda: ways, ask  # not as its own parts: they are its owner's
        self.found = nn.ParameterList()

    def add_task(self) -> None:
        self.found.append(nn.Parameter(torch.ones(len(self._ways())), requires_grad=False))

    @torch.no_grad()
    def finish_learning(self, examples: Examples) -> None:
        if self.n_begun > 1:
            inputs = _some(examples)
            each = torch.stack([way.scores(inputs, self._ask(inputs)).double().cpu() for way in self._ways()])
            self.found[self.n_begun - 1].copy_(best_weights(each, self.n_begun - 1))

    def mean(self) -> Tensor:
        """Return the weights that count: the mean of all tasks' but the first, which has nothing to be told from."""
        return torch.stack(list(self.found)[1:] or list(self.found)).mean(0)


class CombinedInference(AbstractInference):
    """Scores a task by the weighted sum of several ways to score it."""

    def __init__(self, ways: Sequence[AbstractInference], ask: Callable[[Tensor], Ask]):
        super().__init__()
        self.ways = nn.ModuleList(ways)
        self._each = lambda: ways
        self.weights = Weights(ways, ask)

    def train_step(self, batch: Batch) -> Terms:
        terms: Terms = {}
        for way in self._each():
            terms |= way.train_step(batch)
        return terms

    def scores(self, inputs: Tensor, ask: Ask) -> Tensor:
        each = torch.stack([way.scores(inputs, ask).to(inputs.device) for way in self._each()])
        return (self.weights.mean().to(each)[:, None, None] * each).sum(0)

    def count(self) -> int:
        return sum(way.count() for way in self._each())

    @property
    def numel_per_task(self) -> int:
        return len(self.ways) + sum(way.numel_per_task for way in self._each())

    @property
    def nbytes_shared(self) -> int:
        return sum(way.nbytes_shared for way in self._each())

    @property
    def nbytes_per_task(self) -> int:
        return 4 * len(self.ways) + sum(way.nbytes_per_task for way in self._each())


def best_weights(scores: Tensor, right: int | Tensor) -> Tensor:
    r"""Return the weights [ways] with which the right tasks are likeliest, for scores [ways, n, tasks].

    $$\max_{w \ge 0} \frac1n \sum_i \log \mathrm{softmax}_t\Big(\sum_k w_k S^k_t(x_i)\Big)_{right}
      - \frac{\epsilon}{2} \lVert w - 1 \rVert^2$$

    By Newton's method, halving steps that do not help: it is concave.
    """
    right = torch.as_tensor(right).expand(scores.shape[1])
    ways, w = scores.permute(1, 2, 0), torch.ones(len(scores), dtype=scores.dtype)

    def gain(w: Tensor) -> float:
        likely = (ways @ w).log_softmax(1).gather(1, right[:, None]).mean()
        return float(likely - PRIOR / 2 * (w - 1).square().sum())

    for _ in range(STEPS):
        p = (ways @ w).softmax(1)[..., None]
        expected = (p * ways).sum(1)
        gradient = (ways[torch.arange(len(ways)), right] - expected).mean(0) - PRIOR * (w - 1)
        around = ways - expected[:, None]
        curvature = torch.einsum("nti,ntj->ij", p * around, around) / len(ways) + PRIOR * torch.eye(len(w)).to(w)
        step = torch.linalg.solve(curvature, gradient)
        size = next((s for s in (1.0, 0.5, 0.25, 0.1, 0.03) if gain((w + s * step).clamp_min(0)) > gain(w)), None)
        if size is None:
            break
        w = (w + size * step).clamp_min(0)
    return w


def log_entropy(logits: Tensor) -> Tensor:
    """Return the logarithm [n] of the entropy of answers, in float64: in float32 that of a sure one would be 0."""
    wide = logits.double()
    return entropy(wide).clamp_min(torch.finfo(torch.float64).tiny).log()


def _some(examples: Examples) -> Tensor:
    picked = torch.randperm(len(examples))[:CALIBRATED_ON]
    return examples.batch(picked.to(examples.device))[0]
