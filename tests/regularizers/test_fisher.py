"""The Fisher information squares the gradient of each example, not that of a batch."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from mnemon.hypernet.target import Target
from mnemon.models.mlp import MLP
from mnemon.regularizers.fisher import diagonal_fisher

pytestmark = pytest.mark.usefixtures("double")


@pytest.fixture
def target() -> Target:
    return Target(MLP((3,), (4,), 3, nn.Tanh))


def log_likelihood_of(target: Target):
    def log_likelihood(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return target(weights, x).log_softmax(1).gather(1, y[:, None]).sum()

    return log_likelihood


def gradient(function, weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
    w = weights.clone().requires_grad_()
    return torch.autograd.grad(function(w, x, y), w)[0]


@pytest.mark.parametrize("batch_size", [1, 4, 11, 50])
def test_fisher_equals_the_loop_over_examples(batch_size, target):
    x, y, weights = torch.randn(11, 3), torch.randint(3, (11,)), torch.randn(target.size)
    function = log_likelihood_of(target)
    one_by_one = [gradient(function, weights, x[i : i + 1], y[i : i + 1]).square() for i in range(11)]
    found = diagonal_fisher(function, weights, x, y, batch_size)
    torch.testing.assert_close(found, torch.stack(one_by_one).mean(0), rtol=1e-12, atol=1e-14)
    assert not found.requires_grad


def test_fisher_is_not_the_square_of_the_mean_gradient(target):
    x, weights = torch.randn(2, 3), torch.randn(target.size)
    # The same input twice with each of two labels in turn: the gradients of the examples partly cancel.
    x, y = torch.cat([x, x]), torch.tensor([0, 0, 1, 1])
    function = log_likelihood_of(target)
    squared_mean = (gradient(function, weights, x, y) / 4).square()
    found = diagonal_fisher(function, weights, x, y)
    assert (found >= squared_mean - 1e-15).all()
    assert found.sum() > 1.5 * squared_mean.sum()


def test_fisher_of_a_linear_gaussian_model_is_the_mean_squared_residual_times_input():
    x, y, weights = torch.randn(30, 2), torch.randn(30), torch.randn(2)
    found = diagonal_fisher(lambda w, a, b: -0.5 * (a @ w - b).square().sum(), weights, x, y)
    torch.testing.assert_close(found, ((x @ weights - y)[:, None] * x).square().mean(0), rtol=1e-12, atol=0)
