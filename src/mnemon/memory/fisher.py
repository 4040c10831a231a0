r"""How much each weight of a network matters for what it answers: the diagonal Fisher information.

$$F_i = \frac1N \sum_n \Big( \frac{\partial \log p(y_n \mid x_n, w)}{\partial w_i} \Big)^2$$

The square is taken *per example*: the square of a batch's mean gradient is another, much smaller thing.
"""

from __future__ import annotations

import copy
from collections.abc import Callable

import torch
from torch import Tensor, nn
from torch.func import grad, vmap

from mnemon.hypernet.target import Target

AT_ONCE = 500
"""Examples that go through a network at once."""


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


LogLikelihood = Callable[[Tensor, Tensor], Tensor]
"""The log-likelihood of targets, summed over a batch, given a network's outputs."""


def fisher_of_network(network: nn.Module, log_likelihood: LogLikelihood, inputs: Tensor, targets: Tensor) -> Tensor:
    """Return the diagonal Fisher information of a network's parameters, flat in their order.

    Buffers stay as they are: the network is taken as it answers, not as it learns.
    """
    frozen = copy.deepcopy(network).eval().requires_grad_(False)
    found = _of_linear_layers(frozen, log_likelihood, inputs, targets)
    return one_by_one(frozen, log_likelihood, inputs, targets) if found is None else found


def one_by_one(network: nn.Module, log_likelihood: LogLikelihood, inputs: Tensor, targets: Tensor) -> Tensor:
    """Take the gradient of every example: for any network."""
    target = Target(network)

    def of_weights(weights: Tensor, x: Tensor, y: Tensor) -> Tensor:
        return log_likelihood(target(weights, x), y)

    return diagonal_fisher(of_weights, target.own_weights(), inputs, targets)


def _of_linear_layers(
    network: nn.Module, log_likelihood: LogLikelihood, inputs: Tensor, targets: Tensor
) -> Tensor | None:
    r"""Return the same from whole batches, if all parameters belong to linear layers used once; None otherwise.

    The gradient of one example is an outer product, $\delta_n a_n^T$, and so its square is that of the squares: no
    gradient of an example has to be written down.
    """
    layers = [module for module in network.modules() if isinstance(module, nn.Linear)]
    owned = [id(p) for layer in layers for p in layer.parameters()]
    if len(set(owned)) < len(owned) or {id(p) for p in network.parameters()} != set(owned):
        return None
    squares = {id(p): torch.zeros_like(p) for p in network.parameters()}
    for x, y in zip(inputs.split(AT_ONCE), targets.split(AT_ONCE), strict=True):
        seen = _inputs_and_outputs(network, layers, x)
        if seen is None:
            return None
        outputs, pairs = seen
        with torch.enable_grad():
            likelihood = log_likelihood(outputs, y)
        gradients = torch.autograd.grad(likelihood, [pair[1] for pair in pairs], allow_unused=True)
        for layer, (a, _), delta in zip(layers, pairs, gradients, strict=True):
            if delta is None:  # the answer does not depend on this layer
                continue
            squares[id(layer.weight)] += delta.square().T @ a.square()
            if layer.bias is not None:
                squares[id(layer.bias)] += delta.square().sum(0)
    return torch.cat([squares[id(p)].flatten() for p in network.parameters()]) / len(inputs)


Pair = tuple[Tensor, Tensor]


def _inputs_and_outputs(network: nn.Module, layers: list[nn.Linear], x: Tensor) -> tuple[Tensor, list[Pair]] | None:
    """Run a network; return its outputs, and what went into and came out of each layer; None if not just once."""
    seen: dict[int, list[Pair]] = {id(layer): [] for layer in layers}

    def keep(layer: nn.Module, inputs: tuple[Tensor, ...], output: Tensor) -> Tensor:
        output = output.detach().requires_grad_() if not output.requires_grad else output
        seen[id(layer)].append((inputs[0].detach(), output))
        return output.clone()  # what follows may change it in place

    handles = [layer.register_forward_hook(keep) for layer in layers]
    try:
        with torch.enable_grad():
            outputs = network(x)
    finally:
        for handle in handles:
            handle.remove()
    each = [seen[id(layer)] for layer in layers]
    if any(len(pairs) != 1 or pairs[0][0].ndim != 2 or len(pairs[0][0]) != len(x) for pairs in each):
        return None
    return outputs, [pairs[0] for pairs in each]
