"""Initial values of networks that are trained as they are."""

from __future__ import annotations

from torch import nn


def xavier(module: nn.Module) -> nn.Module:
    """Set matrices Xavier-uniform and biases to 0, as the paper's plain networks start; return the module."""
    for name, parameter in module.named_parameters():
        if parameter.ndim > 1:
            nn.init.xavier_uniform_(parameter)
        elif name.endswith("bias"):
            nn.init.zeros_(parameter)
    return module
