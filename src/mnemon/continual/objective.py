"""What a module learns: classes, several labels at once, numbers, or the user's own loss."""

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
"""The user's own loss: a function from outputs and targets of a batch to their mean loss."""
IGNORED = -100
"""Label of steps that are ignored, such as the padding of a sequence; the same as in torch."""


class ObjectiveKind(str, Enum):
    """What the answer to an input is."""

    CLASSES = "classes"
    """One class (of each input, or of each step of a sequence): cross entropy, accuracy in percent."""
    LABELS = "labels"
    """Any number of labels, yes or no each: binary cross entropy, percentage of right labels."""
    NUMBERS = "numbers"
    """Numbers: mean squared error."""
    OWN = "own"
    """Defined by the user's own loss."""

    @property
    def higher_is_better(self) -> bool:
        """Whether a score of this kind is an accuracy."""
        return self in (ObjectiveKind.CLASSES, ObjectiveKind.LABELS)

    @property
    def in_words(self) -> str:
        """The kind of loss, for messages."""
        return "your own loss" if self is ObjectiveKind.OWN else self.value


@dataclass(frozen=True)
class Goal:
    """The answers of one task: their kind, and its classes as the user's labels."""

    kind: ObjectiveKind
    classes: tuple[int, ...] = ()
    """The user's labels in the order of the module's outputs (classes only)."""
    own_loss: Loss | None = None

    def cut(self, outputs: Tensor) -> Tensor:
        """Return the outputs that the task uses."""
        return outputs[..., : len(self.classes)] if self.kind is ObjectiveKind.CLASSES else outputs

    def output_indices(self, targets: Tensor) -> Tensor:
        """Return the user's labels as indices of the outputs; -1 for labels that the task does not have."""
        if self.kind is not ObjectiveKind.CLASSES:
            return targets
        known = torch.tensor(self.classes, device=targets.device)
        index = torch.searchsorted(known, targets.contiguous()).clamp(max=len(known) - 1)
        index = torch.where(known[index] == targets, index, -1)
        return torch.where(targets == IGNORED, IGNORED, index)

    def labels(self, output_indices: Tensor) -> Tensor:
        """Return indices of outputs as the user's labels."""
        return torch.tensor(self.classes, device=output_indices.device)[output_indices]

    def as_learned(self, task: str) -> str | Loss:
        """Return the value of `loss` with which the task was learned."""
        if self.kind is not ObjectiveKind.OWN:
            return self.kind.value
        if self.own_loss is None:
            raise UsageError(f"Task '{task}' was learned with your own loss, which is not in the file: give loss=.")
        return self.own_loss

    def loss(self, outputs: Tensor, targets: Tensor) -> Tensor:
        """Return the mean loss of a batch; targets are indices of outputs."""
        outputs = self.cut(outputs)
        if self.kind is ObjectiveKind.OWN:
            assert self.own_loss is not None
            return self.own_loss(outputs, targets)
        outputs = _wide(outputs)
        if self.kind is ObjectiveKind.CLASSES:
            if bool((targets == IGNORED).all()):  # a mean over nothing would be NaN
                return 0 * outputs.sum()
            return F.cross_entropy(outputs.flatten(0, -2), targets.flatten(), ignore_index=IGNORED)
        if self.kind is ObjectiveKind.LABELS:
            return F.binary_cross_entropy_with_logits(outputs, targets.to(outputs.dtype))
        return F.mse_loss(outputs, targets.to(outputs.dtype))

    def score(self, outputs: Tensor, targets: Tensor) -> float:
        """Return how good outputs are: accuracy in percent, or the error; targets are indices of outputs."""
        if self.kind is ObjectiveKind.CLASSES:
            counts = targets != IGNORED
            return 100.0 * float((self.cut(outputs).argmax(-1) == targets)[counts].double().mean())
        if self.kind is ObjectiveKind.LABELS:
            return 100.0 * float(((outputs > 0) == targets.bool()).double().mean())
        return float(self.loss(outputs, targets))

    def check(self, outputs: Any, targets: Tensor, task: str) -> None:
        """Refuse a module whose outputs do not fit the targets."""
        if not isinstance(outputs, Tensor):
            raise UsageError(f"The module must return one tensor, not {type(outputs).__name__}.")
        if self.kind is ObjectiveKind.OWN:
            self._check_own_loss(outputs, targets)
        elif self.kind is ObjectiveKind.CLASSES:
            self._check_classes(outputs, targets, task)
        elif outputs.shape != targets.shape:
            raise UsageError(
                f"Task '{task}': a target has shape {tuple(targets.shape[1:])}, but the module returns "
                f"{tuple(outputs.shape[1:])} for an input."
            )

    def _check_classes(self, outputs: Tensor, targets: Tensor, task: str) -> None:
        if outputs.shape[:-1] != targets.shape:
            wanted = ", ".join([*(str(n) for n in targets.shape[1:]), "classes"])
            raise UsageError(
                f"Task '{task}': a target has shape {tuple(targets.shape[1:])}, so the module should return "
                f"({wanted}) for an input; it returns {tuple(outputs.shape[1:])}."
            )
        if outputs.shape[-1] < 2:
            raise UsageError(f"Task '{task}': the module has only one output; it needs one for each class.")
        if len(self.classes) > outputs.shape[-1]:
            raise UsageError(
                f"Task '{task}' has {len(self.classes)} classes, but the module has {outputs.shape[-1]} outputs "
                "(for a regression, give loss='numbers')."
            )

    def _check_own_loss(self, outputs: Tensor, targets: Tensor) -> None:
        assert self.own_loss is not None
        with torch.enable_grad():
            loss = self.own_loss(outputs.detach().requires_grad_(), targets)
        if not isinstance(loss, Tensor) or loss.ndim:
            what = f"a tensor of shape {tuple(loss.shape)}" if isinstance(loss, Tensor) else type(loss).__name__
            raise UsageError(f"A loss must return a tensor with one number, such as a mean; this one returns {what}.")
        if not loss.requires_grad:
            raise UsageError("The loss does not depend on the outputs: it has no gradient.")


LOSSES = {"classes": ObjectiveKind.CLASSES, "labels": ObjectiveKind.LABELS, "numbers": ObjectiveKind.NUMBERS}


def goal_for(targets: Tensor, loss: str | Loss) -> Goal:
    """Return the goal of a task, from its targets and the user's choice of loss.

    With 'auto', integers are classes, booleans are labels, and floats are numbers.
    """
    if callable(loss):
        return Goal(ObjectiveKind.OWN, own_loss=loss)
    if not isinstance(loss, str):
        raise UsageError(f"loss must be a name or a function of outputs and targets, not {type(loss).__name__}.")
    guess = _guess(targets)
    kind = choose("loss", loss, {"auto": guess, **LOSSES})
    if kind is ObjectiveKind.CLASSES:
        if guess is not ObjectiveKind.CLASSES:
            raise UsageError(f"Classes must be whole numbers, not {str(targets.dtype).removeprefix('torch.')}.")
        classes = tuple(targets[targets != IGNORED].unique().tolist())
        if not classes:
            raise UsageError(f"There is no class: all targets are {IGNORED}, which is ignored.")
        return Goal(kind, classes)
    if kind is ObjectiveKind.LABELS and not bool(((targets == 0) | (targets == 1)).all()):
        raise UsageError("Labels must be 0 or 1 (or booleans).")
    return Goal(kind)


def _guess(targets: Tensor) -> ObjectiveKind:
    if targets.dtype == torch.bool:
        return ObjectiveKind.LABELS
    return ObjectiveKind.NUMBERS if targets.is_floating_point() else ObjectiveKind.CLASSES


def _wide(values: Tensor) -> Tensor:
    """Return half precision as ordinary floats: a loss needs them."""
    return values.to(torch.promote_types(values.dtype, torch.float32))
