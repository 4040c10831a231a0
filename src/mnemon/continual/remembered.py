"""What is kept of a task beside its embedding."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.continual.data import Inputs
from mnemon.continual.kinds import Goal

Signature = tuple[tuple[tuple[int, ...], str], ...]
"""Shape (without the number of examples) and type of some tensors."""
UNKNOWN = "unknown"
"""What an input is taken for that no task is sure of; no task may be called so."""


@dataclass(frozen=True)
class Remembered:
    """A task that was learned, as `learn` returns it and `about` shows it."""

    name: str
    goal: Goal
    inputs: Signature
    """Shape and type of each input of the module."""
    n_examples: int
    """Examples that it was learned from, whenever that was."""
    steps: int
    score: float
    """On the validation data if there were any, else on the training data, right after it was learned."""
    entropies: tuple[float, float] | None = None
    """Logarithm of the usual entropy of its answers, and of what few training inputs exceed (classes only)."""
    serial: int = 0
    """Tasks learned before it, forgotten ones too: its random numbers follow from it."""
    losses: tuple[float, ...] = ()
    """Losses on the last batches of a stream, by which the task is known again when it comes back."""


def signature(inputs: Inputs) -> Signature:
    """Return shape (without the number of examples) and type of tensors."""
    return tuple((tuple(part.shape[1:]), str(part.dtype).removeprefix("torch.")) for part in inputs)


def in_words(form: Signature) -> str:
    """Return shapes and types for an error."""
    return " and ".join(f"{shape} {dtype}" for shape, dtype in form)
