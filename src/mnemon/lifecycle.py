"""What learns task after task: a whole learner, or a piece of one, such as a replay model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.benchmarks.task import Examples
from mnemon.errors import CheckpointError


class TaskModule(nn.Module):
    """A module with hooks for the start and the end of each task: a learner, or a piece of one.

    The learner that owns it calls the hooks of all its pieces: `add_task`, `start_learning` and `rebuild` when a task
    begins, `finish_learning` when it ends. What must survive a restart is in `state_dict()` and in `optimizers`. A
    piece that owns other pieces leaves these calls to the learner.

    Example:
        >>> class Centers(mnemon.TaskModule):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.centers = nn.ParameterList()
        ...     def add_task(self):
        ...         self.centers.append(nn.Parameter(torch.zeros(4)))
        >>> pieces = Centers()
        >>> pieces.add_task()
        >>> len(pieces.state_dict())
        1
    """

    def __init__(self) -> None:
        """Begin with no task."""
        super().__init__()
        self.n_begun = 0
        """Tasks begun so far, the present one included."""
        self.in_task = False
        """Whether a task has begun and not ended."""
        self.optimizers: dict[str, torch.optim.Optimizer] = {}
        """By name; between two tasks only those that go on."""

    def add_task(self) -> None:
        """Make room for one more task, with its initial values."""

    def start_learning(self) -> None:
        """Make what is needed only while the newest task is learned: optimizers, snapshots."""

    def finish_learning(self, examples: Examples) -> None:
        """Drop what was needed only while learning, and store what is kept of the task.

        Args:
            examples: The training data of the task.
        """

    def lasting_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers that are kept for the next task; usually none.

        A piece that has some returns new ones if it has none yet: after a restart between two tasks.
        """
        return {}

    def rebuild(self) -> None:
        """Compute what follows from the state and is not saved in it."""

    def select_tasks(self, order: Sequence[int]) -> None:
        """Keep these tasks, in this order, and drop all others. Called only between two tasks.

        Args:
            order: The numbers of the tasks.
        """

    def mechanisms(self) -> dict[str, str]:
        """Return the loss terms that keep earlier tasks, and what each of them is.

        If such a term is 0 in every step from the second task on, the run warns that the method did nothing. A term
        whose strength was set to 0 is left out.
        """
        return {}

    def transient(self, name: str) -> bool:
        """Tell whether a tensor of `state_dict()` need not be saved.

        Args:
            name: The name of the tensor.
        """
        return False


def task_modules_of(module: nn.Module) -> dict[str, TaskModule]:
    """Return all parts in a module by their path, itself ('') included, owners before what they own."""
    return {name: part for name, part in module.named_modules() if isinstance(part, TaskModule)}


class CheckpointedModule(TaskModule):
    """A piece that owns all others: it begins and ends tasks for them, and saves and restores their state."""

    def begin_task(self, task_id: int) -> None:
        """Get ready for a task."""
        self._on_parts("add_task")
        self._set_begun(task_id + 1, in_task=True)
        self._on_parts("start_learning")
        self._on_parts("rebuild")

    def end_task(self, examples: Any) -> None:
        """Finish a task; `examples` are its training data."""
        for part in task_modules_of(self).values():
            part.finish_learning(examples)
            part.optimizers = part.lasting_optimizers()
            part.in_task = False

    # Putting away and taking back

    def tensors(self) -> dict[str, Tensor]:
        """Return the whole state: parameters, buffers and optimizers."""
        state = self._lasting()
        for name, optimizer in self._all_optimizers().items():
            for i, values in optimizer.state_dict()["state"].items():
                tensors = {k: v for k, v in values.items() if isinstance(v, Tensor)}
                state |= {f"{name}/{i}/{key}": value for key, value in tensors.items()}
        return state

    def restore(self, tensors: dict[str, Tensor], n_begun: int, learning: bool) -> None:
        """Restore the state of a learner that has begun so many tasks; it must fit exactly."""
        for _ in range(n_begun):
            self._on_parts("add_task")
        self._set_begun(n_begun, learning)
        if learning:
            self._on_parts("start_learning")
        elif n_begun:
            for part in task_modules_of(self).values():
                part.optimizers = part.lasting_optimizers()
        optimizers = self._all_optimizers()
        own = self._lasting()
        given = {k: v for k, v in tensors.items() if k.startswith("learner/")}
        moments = {name: _moments_in(tensors, f"{name}/") for name in optimizers}
        others = tensors.keys() - given.keys() - {key for found in moments.values() for key in found}
        # Everything is compared before anything is copied: a fused optimizer would write beyond a small moment.
        problem = (f"'{min(others)}' is not known" if others else "") or _difference(own, given)
        for name, optimizer in optimizers.items():
            problem = problem or _misfit(optimizer, moments[name], name)
        if problem:
            raise CheckpointError(f"The checkpoint does not fit this learner: {problem}.")
        with torch.no_grad():
            for key, value in own.items():
                value.copy_(given[key])
        for name, optimizer in optimizers.items():
            _restore_optimizer(optimizer, moments[name])
        self._on_parts("rebuild")

    def _on_parts(self, verb: str) -> None:
        for part in task_modules_of(self).values():
            getattr(part, verb)()

    def _set_begun(self, n_begun: int, in_task: bool) -> None:
        for part in task_modules_of(self).values():
            part.n_begun, part.in_task = n_begun, in_task

    def _lasting(self) -> dict[str, Tensor]:
        """Return the parameters and buffers that are not only a form."""
        form = {
            f"{path}.{name}" if path else name
            for path, part in task_modules_of(self).items()
            for name in part.state_dict()
            if part.transient(name)
        }
        return {f"learner/{name}": value for name, value in self.state_dict().items() if name not in form}

    def _all_optimizers(self) -> dict[str, torch.optim.Optimizer]:
        """Return the optimizers of all parts, by the part's path and their own name."""
        parts = task_modules_of(self).items()
        return {f"optimizer/{path}.{name}": o for path, part in parts for name, o in part.optimizers.items()}


def _difference(own: Mapping[str, Tensor], given: Mapping[str, Tensor]) -> str:
    """Say in what given tensors are not like the own ones, in name, shape or type."""
    if missing := sorted(own.keys() - given.keys()):
        return f"'{missing[0]}' is missing"
    if foreign := sorted(given.keys() - own.keys()):
        return f"'{foreign[0]}' is not known"
    for key, value in own.items():
        if value.shape != given[key].shape:
            return f"'{key}' has shape {list(given[key].shape)} instead of {list(value.shape)}"
        if value.dtype != given[key].dtype:
            return f"'{key}' is {_type(given[key])} instead of {_type(value)}"
    return ""


def _type(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


# The state of an optimizer: for each of its parameters, tensors by their names

Moments = dict[str, tuple[int, str, Tensor]]
"""Key in the file -> number of the parameter, name of the state, value."""


def _moments_in(tensors: Mapping[str, Tensor], prefix: str) -> Moments:
    found: Moments = {}
    for key, value in tensors.items():
        if key.startswith(prefix):
            index, _, name = key.removeprefix(prefix).partition("/")
            found[key] = (int(index) if index.isdecimal() and len(index) < 10 else -1, name, value)
    return found


def _misfit(optimizer: torch.optim.Optimizer, moments: Moments, where: str) -> str:
    """Say in what a state is not one that this optimizer can have: for each parameter all of it, or nothing."""
    parameters = [p for group in optimizer.param_groups for p in group["params"]]
    begun = {i for i, _, _ in moments.values()}
    if begun - set(range(len(parameters))):
        return f"'{where}' has no parameter such as that of '{min(moments)}'"
    names = _names_of_state(optimizer)
    own: dict[str, Tensor] = {}
    for i in sorted(begun):
        for name, shared in names.items():
            own[f"{where}/{i}/{name}"] = shared if shared is not None else parameters[i]
    return _difference(own, {key: value for key, (_, _, value) in moments.items()})


def _names_of_state(optimizer: torch.optim.Optimizer) -> dict[str, Tensor | None]:
    """Return what an optimizer keeps of a parameter: None where it is like the parameter, else what it is like."""
    probe = nn.Parameter(torch.zeros(2))
    takes = inspect.signature(type(optimizer)).parameters
    tried = type(optimizer)([probe], **{k: v for k, v in optimizer.defaults.items() if k in takes})
    probe.grad = torch.zeros_like(probe)
    tried.step()
    state = {name: value for name, value in tried.state[probe].items() if isinstance(value, Tensor)}
    return {name: None if value.shape == probe.shape else value for name, value in state.items()}


def _restore_optimizer(optimizer: torch.optim.Optimizer, moments: Moments) -> None:
    state: dict[int, dict[str, Any]] = {}
    for index, name, value in moments.values():
        state.setdefault(index, {})[name] = value.clone()
    optimizer.load_state_dict({**optimizer.state_dict(), "state": state})
