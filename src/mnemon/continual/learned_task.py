"""What is kept of a task beside its embedding."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.continual.data import Inputs
from mnemon.continual.objective import Goal, ObjectiveKind

Signature = tuple[tuple[tuple[int, ...], str], ...]
"""Shape (without the number of examples) and type of some tensors."""
UNKNOWN = "unknown"
"""What an input is taken for that no task is sure of; no task may be called so."""


@dataclass(frozen=True)
class LearnedTask:
    """What is kept of a learned task: returned by `ContinualModel.learn` and `about`.

    Example:
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3))
        >>> data = torch.rand(60, 4), torch.arange(60) % 3
        >>> learned = model.learn(data, task="monday", steps=5, quiet=True)
        >>> learned.name, learned.n_examples, learned.steps
        ('monday', 60, 5)
    """

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
    scored_on: str = ""
    """training data or validation data; models of earlier versions do not say."""
    sketch: tuple[float, ...] = ()
    """Sums of its generated weights, by whose change `ContinualModel.drift` tells how far they have moved."""
    calibration: tuple[float, ...] = ()
    """What it lost on its training data when its weights were moved at random, by several lengths."""

    def __str__(self) -> str:
        """Say what was learned, and how well."""
        names = {
            ObjectiveKind.CLASSES: "accuracy",
            ObjectiveKind.LABELS: "right labels",
            ObjectiveKind.NUMBERS: "mean squared error",
        }
        unit = " %" if self.goal.kind.higher_is_better else ""
        where = f" on {self.scored_on}" if self.scored_on else ""
        what = f"{names.get(self.goal.kind, 'loss')} {self.score:.4g}{unit}{where}"
        return f"{self.name}: {self.goal.kind.value}, {self.n_examples:,} examples, {what}"


def signature(inputs: Inputs) -> Signature:
    """Return shape (without the number of examples) and type of tensors."""
    return tuple((tuple(part.shape[1:]), str(part.dtype).removeprefix("torch.")) for part in inputs)


def in_words(form: Signature) -> str:
    """Return shapes and types for an error."""
    return " and ".join(f"{shape} {dtype}" for shape, dtype in form)
