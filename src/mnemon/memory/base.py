"""What a memory of networks of one form does, however it keeps them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import torch
from torch import Tensor

from mnemon.hypernet.target import Buffers, Target
from mnemon.lifecycle import TaskModule
from mnemon.problem import Terms


class AbstractMemory(TaskModule, ABC):
    """Networks of one form, one for each task; the newest may be under way.

    Beside the life of a task it has hooks for what is not in its `state_dict`: codes.
    """

    target: Target
    own: Tensor | None
    """The flat weights of the module as it came, if tasks start from them."""

    @property
    @abstractmethod
    def n_tasks(self) -> int:
        """Tasks that are remembered, the present one included."""

    @property
    @abstractmethod
    def device(self) -> torch.device:
        """Where it computes."""

    @property
    @abstractmethod
    def floats(self) -> torch.dtype:
        """The type of its own numbers, whatever the module's."""

    @property
    @abstractmethod
    def moving(self) -> list[Tensor]:
        """What steps move."""

    @abstractmethod
    def cached_weights(self, task_id: int) -> Tensor:
        """Return what `run` takes as a task's weights, kept at hand: for many questions in a row."""

    @abstractmethod
    def run(self, task_id: int, *inputs: Tensor, training: bool, weights: Tensor | None = None) -> Tensor:
        """Run a task's network, on its weights or on those that `remembered` returned."""

    @abstractmethod
    def network_weights(self, task_id: int) -> dict[str, Tensor]:
        """Return the weights of a task's network by the names of the module's parameters."""

    @abstractmethod
    def network_buffers(self, task_id: int) -> Buffers:
        """Return the buffers of a task's network."""

    @abstractmethod
    def descend(self, loss: Tensor) -> Terms:
        """Take one step down the loss of the present task; return what else was descended."""

    @abstractmethod
    def stop_learning(self) -> None:
        """Drop what is needed only while a task is learned."""

    def advance(self, progress: float) -> None:
        """Take note before a step that such a share of them was taken."""

    def begin_again(self) -> None:
        """Take note that the last task is to be gone on with."""

    def kept(self) -> Any:
        """Return what `put_back` takes, of all that is not in tensors."""

    def put_back(self, kept: Any) -> None:
        """Be as it was."""

    def coded(self) -> dict[str, Tensor]:
        """Return what a file holds of it beside its `state_dict`."""
        return {}

    def take_coded(self, coded: dict[str, Tensor], n_tasks: int) -> None:
        """Take over what `coded` returned."""
