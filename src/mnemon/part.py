"""What learns task after task: a whole learner, or a piece of one, such as a replay model."""

from __future__ import annotations

import torch
from torch import nn

from mnemon.benchmarks.task import Examples


class Part(nn.Module):
    """A module with a life in tasks.

    The learner that owns it calls, on all parts of itself: `add_task`, then `start_learning`, then `derive` when a
    task begins; `finish_learning` when it ends. What must survive a restart is in `state_dict()` and in `optimizers`.
    A part that owns other parts leaves these calls to the learner.
    """

    def __init__(self) -> None:
        super().__init__()
        self.n_begun = 0
        """Tasks begun so far, the present one included."""
        self.optimizers: dict[str, torch.optim.Optimizer] = {}

    def add_task(self) -> None:
        """Make room for one more task, with the values that it starts from."""

    def start_learning(self) -> None:
        """Make what is needed only while the newest task is learned: optimizers, snapshots."""

    def finish_learning(self, examples: Examples) -> None:
        """Drop what was needed only while learning; store what the task leaves behind."""

    def derive(self) -> None:
        """Compute what follows from the state and is not kept in it."""

    def mechanisms(self) -> dict[str, str]:
        """Return the terms of a step by which earlier tasks are kept, and what each is.

        Each has to be other than 0 at some step from the second task on; otherwise the method did nothing.
        """
        return {}

    def transient(self, name: str) -> bool:
        """Tell whether a tensor of this part's `state_dict` is only a form and need not be kept."""
        return False


def parts_of(module: nn.Module) -> dict[str, Part]:
    """Return all parts in a module by their path, itself ('') included, owners before what they own."""
    return {name: part for name, part in module.named_modules() if isinstance(part, Part)}
