r"""Classes as Gaussians with one covariance, all of it from sums over features.

Of the sums (`sums.py`) follow the means $\mu_c$, the scatter within classes $W$ and $\Sigma = W / n + \lambda I$.

$$D_c(x) = (x - \mu_c)^T \Sigma^{-1} (x - \mu_c), \qquad p(c \mid x) \propto \pi_c \, e^{-\tau D_c(x) / 2}$$

The ridge $\lambda$ is that of a ridge classifier on the same sums, chosen by leaving one out. While a task's inputs
are there, each of them is left out in turn (exactly, and without computing anything anew): by that $\tau$ and the
bounds of the unknown are found.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import torch
from torch import Tensor

from mnemon.inference.sums import ClassSums

RIDGES = tuple(10.0**power for power in range(-6, 2))
"""What is tried, as a share of the mean variance of a feature."""
SHARPNESS = torch.logspace(-3, 1, 41, dtype=torch.float64)
"""What is tried for tau."""
EMPTY = -1e30
"""The log probability of a class without examples."""


class SharedGaussian:
    """Gaussians of classes with one covariance, ready to be asked."""

    def __init__(self, sums: ClassSums, n_classes: Sequence[int], ridge: float | None = None):
        """Take the sums over the classes of all tasks, and how many each task has."""
        self.n_classes, self.counts = list(n_classes), sums.counts
        self.ridge = strength(sums) if ridge is None else ridge
        self.n = max(sums.n_examples, 1.0)
        total = sums.scatter_total() / self.n
        floor = max(float(total.diagonal().mean()), 1e-12)
        self.centre = sums.sums.sum(0) / self.n
        self._within = _whitener(sums.scatter_within() / self.n, self.ridge * floor)
        self._total = _whitener(total, self.ridge * floor)
        self._means = (sums.means() - self.centre) @ self._within
        self._squares = self._means.square().sum(1)

    def whitened(self, features: Tensor) -> Tensor:
        """Return features in which the covariance within classes is the identity, in float64 and on the CPU."""
        return (features.cpu().double() - self.centre) @ self._within

    def distances(self, features: Tensor) -> Tensor:
        """Return the squared distance of each input to each class [n, classes]."""
        return self._distances(self.whitened(features))

    def _distances(self, white: Tensor) -> Tensor:
        found = torch.addmm(self._squares, white, self._means.T, alpha=-2)
        return (found + white.square().sum(1, keepdim=True)).clamp_min_(0)

    def from_centre(self, features: Tensor) -> Tensor:
        """Return the squared distance [n] of each input to the mean of all, by the covariance of all."""
        return ((features.cpu().double() - self.centre) @ self._total).square().sum(1)

    def log_probability(self, distances: Tensor, sharpness: float) -> Tensor:
        """Return the log probability of each class [n, classes], all tasks being equally likely beforehand."""
        return (self._prior() - 0.5 * sharpness * distances).log_softmax(1)

    def _prior(self) -> Tensor:
        shares = [part / part.sum().clamp_min(1) for part in self.counts.split(self.n_classes)]
        return torch.cat(shares).log().clamp_min(EMPTY)

    def by_task(self, log_probability: Tensor) -> Tensor:
        """Return the log probability of each task [n, tasks]: of any of its classes."""
        index = torch.repeat_interleave(torch.tensor(self.n_classes))
        highest = log_probability.max(1, keepdim=True).values
        sums = torch.zeros(len(log_probability), len(self.n_classes), dtype=torch.float64)
        return sums.index_add_(1, index, (log_probability - highest).exp()).log().clamp_min(EMPTY) + highest

    # Each of the inputs that were added up left out in turn

    def distances_left_out(self, features: Tensor, classes: Tensor) -> Tensor:
        r"""Return `distances` of inputs that were added up, as if each had not been.

        With $\delta = x - \mu_c$ of its own class, $k = n_c / (n_c - 1)$, $a_j = \delta^T \Sigma^{-1} (x - \mu_j)$:
        $D_j + \frac{k a_j^2 / n}{1 - k D_c / n}$, and for its own class $k^2$ times that (Sherman & Morrison).
        """
        white, own = self.whitened(features), classes.cpu()[:, None]
        distances = self._distances(white)
        to_own = distances.gather(1, own)
        # a_j = z.z - z.m_j - m_c.z + m_c.m_j for whitened z and m
        mean = self._means[own[:, 0]]
        crossed = (white - mean).mul(white).sum(1, keepdim=True) - (white - mean) @ self._means.T
        k = _without_one(self.counts[own])
        found = distances + k / self.n * crossed.square() / (1 - k * to_own / self.n).clamp_min(1e-3)
        return found.scatter(1, own, k.square() * found.gather(1, own))

    def from_centre_left_out(self, features: Tensor) -> Tensor:
        """Return `from_centre` of inputs that were added up, as if each had not been."""
        found, k = self.from_centre(features), self.n / max(self.n - 1, 1)
        return k * k * found / (1 - k * found / self.n).clamp_min(1e-3)


def strength(sums: ClassSums) -> float:
    r"""Return the ridge, as a share of the mean variance, with which a ridge classifier errs least, leaving one out.

    $$\frac{\lVert Y - X B_\lambda \rVert^2 / n}{(1 - \mathrm{tr} H_\lambda / n)^2}$$

    Generalised cross-validation (Golub, Heath & Wahba, 1979): leave-one-out, with the mean leverage of an example.
    """
    n, counts = sums.n_examples, sums.counts
    if n < 3:
        return 1.0
    values, vectors = torch.linalg.eigh(sums.scatter_total() / n)
    values, floor = values.clamp_min(0), max(float(values.clamp_min(0).mean()), 1e-12)
    with_classes = sums.sums - counts[:, None] * sums.sums.sum(0) / n
    square = (vectors.T @ (with_classes.T / n)).square().sum(1)
    wanted = float((counts / n * (1 - counts / n)).sum())
    if float((counts > 0).sum()) < 2:  # nothing to tell apart: as much as keeps what hardly varies within bounds
        return 1e-3
    errors = []
    for ridge in RIDGES:
        raised = values + ridge * floor
        left = wanted - float((square * (values + 2 * ridge * floor) / raised.square()).sum())
        free = 1 - (1 + float((values / raised).sum())) / n
        errors.append(max(left, 0.0) / free**2 if free > 0 else math.inf)
    return RIDGES[min(range(len(RIDGES)), key=errors.__getitem__)]


def best_sharpness(gaussian: SharedGaussian, distances: Tensor, classes: Tensor) -> float:
    """Return the tau with which the classes of inputs that were left out are likeliest."""
    own = classes.cpu()[:, None]
    likely = [
        float(gaussian.log_probability(distances, float(tau)).gather(1, own).clamp_min(-50).mean())
        for tau in SHARPNESS
    ]
    return float(SHARPNESS[max(range(len(likely)), key=likely.__getitem__)])


def _without_one(counts: Tensor) -> Tensor:
    """Return n / (n - 1); of a class of one example, which has no mean without it, 2."""
    return torch.where(counts > 1, counts / (counts - 1).clamp_min(1), 2.0)


def _whitener(covariance: Tensor, ridge: float) -> Tensor:
    """Return V with V V^T = (covariance + ridge I)^-1."""
    eye = torch.eye(len(covariance), dtype=covariance.dtype)
    while True:
        root, failed = torch.linalg.cholesky_ex(covariance + ridge * eye)
        if not int(failed):
            return torch.linalg.solve_triangular(root, eye, upper=False).T
        ridge = 10 * ridge + 1e-12  # rounding made it indefinite
