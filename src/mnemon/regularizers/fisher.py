r"""How much each weight of a network matters for what it answers: the diagonal Fisher information.

$$F_i = \frac1N \sum_n \Big( \frac{\partial \log p(y_n \mid x_n, w)}{\partial w_i} \Big)^2$$

The square is taken *per example*: the square of a batch's mean gradient is another, much smaller thing.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.func import grad, vmap


def diagonal_fisher(
    log_likelihood: Callable[[Tensor, Tensor, Tensor], Tensor],
    weights: Tensor,
    inputs: Tensor,
    targets: Tensor,
    batch_size: int = 16,
) -> Tensor:
    """Return the diagonal Fisher information [len(weights)], averaged over the examples.

    `log_likelihood(weights, inputs, targets)` gives the log-likelihood of a batch, summed.
    """

    def of_one(w: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return log_likelihood(w, x[None], y[None])

    per_example = vmap(grad(of_one), in_dims=(None, 0, 0))
    total = torch.zeros_like(weights)
    for x, y in zip(inputs.split(batch_size), targets.split(batch_size), strict=True):
        total += per_example(weights.detach(), x, y).square().sum(0)
    return total / len(inputs)
