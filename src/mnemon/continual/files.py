"""A model in one file: safetensors, with everything else as JSON in its header. Nothing in it can run code."""

from __future__ import annotations

import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.config import build
from mnemon.continual.adapters import LoRA
from mnemon.continual.kinds import Goal, Kind
from mnemon.continual.model import ContinualModel
from mnemon.continual.modules import check, form_of
from mnemon.continual.remembered import Remembered
from mnemon.continual.state import State
from mnemon.errors import CheckpointError
from mnemon.hypernet import HypernetConfig
from mnemon.seeding import own_random_numbers
from mnemon.training import checkpoint

FORMAT = 3
EARLIER = (2,)
"""Formats of earlier versions that are read, too."""
SUFFIX = ".mnemon"


def save(model: ContinualModel, path: str | Path) -> Path:
    """Write a model to a file, whole or not at all; return its path."""
    path, state = _file(path), model.state
    facts = {
        "format": FORMAT,
        "settings": _plain(asdict(state.settings)),
        "tasks": [_task_facts(task) for task in state.tasks],
        "n_learned": state.n_learned,
        "n_inputs": state.n_inputs,
        "module": _plain(state.form),
        "generated": [slot.name for slot in state.learner.memory.target.slots],
        "frozen": _frozen(state),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write(path, state.learner.tensors(), facts)
    except OSError as error:
        raise CheckpointError(
            f"Could not save the model as {path}: {error}. An earlier file is as it was."
        ) from error
    return path


def load(path: str | Path, module: nn.Module | None = None) -> ContinualModel:
    """Read a model; `module` must be built like the one that it was made with.

    Weights that are generated come from the file; those that were never generated have to be the same.
    """
    path = _file(path)
    if not path.exists():
        raise CheckpointError(f"There is no file {path}.")
    if module is None:
        raise CheckpointError(
            f"A file holds numbers and no code: load('{path}', module) with a module built as before."
        )
    check(module)
    tensors, facts = checkpoint.read(path, (FORMAT, *EARLIER))
    try:
        _check_form(module, facts["module"], path)
        model = ContinualModel(module, **_settings(facts["settings"]))
        state = model.state
        _check_weights(state, facts, path)
        if facts["n_inputs"] is not None:
            state.make_densities_for(facts["n_inputs"])
        with own_random_numbers(0):
            state.learner.restore(checkpoint.to_device(tensors, state.device), len(facts["tasks"]), learning=False)
        state.tasks = [_task(entry) for entry in facts["tasks"]]
        state.n_learned = int(facts["n_learned"])
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: its header holds no model ({error}).") from error
    return model


def _file(path: str | Path) -> Path:
    path = Path(path)
    return path if path.suffix else path.with_name(path.name + SUFFIX)


def _plain(value: Any) -> Any:
    """Return a value as JSON has it."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (tuple, list)) else getattr(value, "value", value)


def _settings(facts: dict[str, Any]) -> dict[str, Any]:
    facts = dict(facts)
    if facts["adapters"] is not None:
        facts["adapters"] = LoRA(**facts["adapters"])
    if facts["hypernet"] is not None:
        facts["hypernet"] = build(HypernetConfig, facts["hypernet"], "hypernet")
    return facts


def _task_facts(task: Remembered) -> dict[str, Any]:
    facts = _plain({k: v for k, v in vars(task).items() if k != "goal"})
    return {**facts, "kind": task.goal.kind.value, "classes": list(task.goal.classes)}


def _task(facts: dict[str, Any]) -> Remembered:
    facts = dict(facts)
    goal = Goal(Kind(facts.pop("kind")), tuple(facts.pop("classes")))
    inputs = tuple((tuple(shape), dtype) for shape, dtype in facts.pop("inputs"))
    entropies, losses = facts.pop("entropies"), tuple(facts.pop("losses"))
    sure = None if entropies is None else tuple(entropies)
    return Remembered(**facts, goal=goal, inputs=inputs, entropies=sure, losses=losses)


def _frozen(state: State) -> dict[str, int]:
    """Return a checksum of every tensor of the module that is used as it came."""
    target = state.learner.memory.target
    generated = {slot.name for slot in target.slots}
    tensors = {**dict(target.module.named_parameters()), **dict(target.module.named_buffers())}
    return {name: _sum(tensor) for name, tensor in tensors.items() if name not in generated}


def _sum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def _check_form(module: nn.Module, given: dict[str, Any], path: Path) -> None:
    """Refuse a module of another form, and name the first tensor that differs."""
    own = _plain(form_of(module))
    for name in [*given, *own]:
        if own.get(name) != given.get(name):
            has, had = (_say(form.get(name)) for form in (own, given))
            raise CheckpointError(f"{path} is of another module: '{name}' is {had} there and {has} in this module.")


def _check_weights(state: State, facts: dict[str, Any], path: Path) -> None:
    """Refuse a module of which something else is frozen, or the frozen part has other values."""
    own, given = [slot.name for slot in state.learner.memory.target.slots], facts["generated"]
    for name in [*given, *own]:
        if (name in own) != (name in given):
            had, has = ("free", "frozen") if name in given else ("frozen", "free")
            raise CheckpointError(
                f"{path} was made with '{name}' {had}, and it is {has} in this module: set requires_grad as before."
            )
    for name, before in zip(own, given, strict=True):
        if name != before:
            raise CheckpointError(
                f"{path} is of a module with its parameters in another order: '{before}' is there where '{name}' is "
                "in this module."
            )
    now = _frozen(state)
    for name, checksum in facts["frozen"].items():
        if now.get(name) != checksum:
            raise CheckpointError(
                f"{path} was made with other values of '{name}', which are used as they come: load the same "
                "(pretrained) weights into the module first."
            )


def _say(form: list[Any] | None) -> str:
    return "missing" if form is None else f"{form[0]} ({form[1]})"
