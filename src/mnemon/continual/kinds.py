"""What is asked of a module: classes, several labels at once, numbers, or a loss of one's own."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from mnemon.errors import UsageError, choose

Loss = Callable[[Tensor, Tensor], Tensor]
"""A loss of one's own: outputs and targets of a batch to their mean loss."""


class Kind(str, Enum):
    """What the answer to an input is."""

    CLASSES = "classes"
    """One class (of each input, or of each step of a sequence): cross entropy, accuracy in percent."""
    LABELS = "labels"
    """Any number of labels, yes or no each: binary cross entropy, percentage of right labels."""
    NUMBERS = "numbers"
    """Numbers: mean squared error."""
    OWN = "own"
    """Whatever the user's own loss says."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a score of this kind is an accuracy."""
        return self in (Kind.CLASSES, Kind.LABELS)


@dataclass(frozen=True)
class Goal:
    """The answers of one task: their kind, and its classes as the user's labels."""

    kind: Kind
    classes: tuple[int, ...] = ()
    """The user's labels in the order of the module's outputs (classes only)."""
    own_loss: Loss | None = None

    def cut(self, outputs: Tensor) -> Tensor:
        """Return the outputs that the task uses."""
        return outputs[..., : len(self.classes)] if self.kind is Kind.CLASSES else outputs

    def places(self, targets: Tensor) -> Tensor:
        """Return the user's labels as places among the outputs; -1 for labels that the task does not have."""
        if self.kind is not Kind.CLASSES:
            return targets
        known = torch.tensor(self.classes, device=targets.device)
        place = torch.searchsorted(known, targets).clamp(max=len(known) - 1)
        return torch.where(known[place] == targets, place, -1)

    def labels(self, places: Tensor) -> Tensor:
        """Return places among the outputs as the user's labels."""
        return torch.tensor(self.classes, device=places.device)[places]

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch; targets are places."""
        outputs = self.cut(outputs)
        if self.own_loss is not None:
            return self.own_loss(outputs, targets)
        if self.kind is Kind.CLASSES:
            return F.cross_entropy(outputs.flatten(0, -2).float(), targets.flatten())
        if self.kind is Kind.LABELS:
            return F.binary_cross_entropy_with_logits(outputs.float(), targets.to(torch.float32))
        return F.mse_loss(outputs.float(), targets.to(torch.float32))

    def score(self, outputs: Tensor, targets: Tensor) -> float:
        """Return how good outputs are: accuracy in percent, or the error; targets are places."""
        outputs = self.cut(outputs)
        if self.kind is Kind.CLASSES:
            return 100.0 * float((outputs.argmax(-1) == targets).double().mean())
        if self.kind is Kind.LABELS:
            return 100.0 * float(((outputs > 0) == targets.bool()).double().mean())
        return float(self.loss(outputs, targets))

    def check(self, outputs: Any, targets: Tensor, task: str) -> None:
        """Refuse a module whose outputs do not fit the targets."""
        if not isinstance(outputs, Tensor):
            raise UsageError(f"The module must return one tensor, not {type(outputs).__name__}.")
        if self.kind is Kind.OWN:
            return
        if self.kind is Kind.CLASSES:
            wanted = tuple(targets.shape)
            if outputs.ndim != targets.ndim + 1 or tuple(outputs.shape[:-1]) != wanted:
                raise UsageError(
                    f"Task '{task}': classes of shape {wanted} need outputs of shape {(*wanted, 'classes')}; "
                    f"the module returns {tuple(outputs.shape)}."
                )
            if len(self.classes) > outputs.shape[-1]:
                raise UsageError(
                    f"Task '{task}' has {len(self.classes)} classes, but the module has {outputs.shape[-1]} outputs."
                )
        elif outputs.shape != targets.shape:
            raise UsageError(
                f"Task '{task}': targets have shape {tuple(targets.shape)}, but the module returns "
                f"{tuple(outputs.shape)}."
            )


LOSSES = {"classes": Kind.CLASSES, "labels": Kind.LABELS, "numbers": Kind.NUMBERS}


def goal_for(targets: Tensor, loss: str | Loss, raw_labels: bool = False) -> Goal:
    """Return the goal of a task from its targets, and from what the user said of the loss.

    'auto' takes whole numbers for classes, truth values for labels, and anything else for numbers. With `raw_labels`
    classes are taken as places among the outputs, whatever labels there are.
    """
    if callable(loss):
        return Goal(Kind.OWN, own_loss=loss)
    kind = _guess(targets) if loss == "auto" else choose("loss", loss, {**LOSSES, "auto": Kind.OWN})
    if kind is Kind.CLASSES:
        if targets.is_floating_point() or targets.dtype == torch.bool:
            raise UsageError(f"Classes must be whole numbers, not {targets.dtype}.")
        if raw_labels:
            return Goal(kind, tuple(range(int(targets.max()) + 1)))
        return Goal(kind, tuple(targets.unique().tolist()))
    if kind is Kind.LABELS and not bool(((targets == 0) | (targets == 1)).all()):
        raise UsageError("Labels must be 0 or 1 (or truth values).")
    return Goal(kind)


def _guess(targets: Tensor) -> Kind:
    if targets.dtype == torch.bool:
        return Kind.LABELS
    return Kind.NUMBERS if targets.is_floating_point() else Kind.CLASSES
