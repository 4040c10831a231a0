"""What is stored of a task besides its embedding."""

from __future__ import annotations

from dataclasses import dataclass

from mnemon.continual.data import Inputs
from mnemon.continual.objective import Goal, ObjectiveKind

Signature = tuple[tuple[tuple[int, ...], str], ...]
"""Shape (without the number of examples) and type of some tensors."""
UNKNOWN = "unknown"
"""The task of an input that is unlike all tasks; no task may have this name."""


@dataclass(frozen=True)
class LearnedTask:
    """What is stored of a learned task: returned by `ContinualModel.learn` and `about`.

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
    """Examples that it was learned from, those of `relearn` included."""
    steps: int
    score: float
    """Right after learning: on the validation data if there were any, else on the training data."""
    entropies: tuple[float, float] | None = None
    """Logarithms of the median entropy of its answers, and of a high quantile, on training inputs (classes only)."""
    serial: int = 0
    """Number of tasks learned before it, forgotten ones too. Its random numbers depend on this."""
    losses: tuple[float, ...] = ()
    """Losses on the last batches of a stream; they show when the task returns."""
    scored_on: str = ""
    """training data or validation data; empty in models of earlier versions."""
    sketch: tuple[float, ...] = ()
    """Sums of its generated weights; `ContinualModel.drift` computes from their change how far the weights moved."""
    calibration: tuple[float, ...] = ()
    """Loss of score on its training data after random moves of its weights, for several lengths."""

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
