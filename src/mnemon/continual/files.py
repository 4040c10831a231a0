"""A model in one file: safetensors, with everything else as JSON in its header. Nothing in it can run code."""

from __future__ import annotations

import math
import zlib
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.config import build
from mnemon.continual.adapters import LoRA
from mnemon.continual.kinds import Goal, Kind
from mnemon.continual.model import ContinualModel, Remembered
from mnemon.errors import CheckpointError
from mnemon.hypernet import HypernetConfig
from mnemon.training import checkpoint

FORMAT = 1
SUFFIX = ".mnemon"


def save(model: ContinualModel, path: str | Path) -> Path:
    """Write a model to a file, whole or not at all; return its path."""
    path = _file(path)
    facts = {
        "format": FORMAT,
        "settings": _plain(asdict(model._settings)),
        "tasks": [_task_facts(task) for task in model._tasks],
        "n_learned": model._n_learned,
        "module": _form(model._learner.memory.target.module),
        "frozen": _frozen(model),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        checkpoint.write(path, model._learner.tensors(), facts)
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
    tensors, facts = checkpoint.read(path, FORMAT)
    try:
        model = ContinualModel(module, **_settings(facts["settings"]))
        _check_module(model, facts, path)
        if facts["tasks"]:
            model._make_densities(math.prod(facts["tasks"][0]["inputs"][0][0]))
        model._learner.restore(checkpoint.to_device(tensors, model.device), len(facts["tasks"]), learning=False)
        model._tasks = [_task(entry) for entry in facts["tasks"]]
        model._n_learned = int(facts["n_learned"])
    except (KeyError, TypeError, ValueError) as error:
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
    facts = _plain({k: v for k, v in vars(task).items() if k not in ("goal", "ceiling")})
    ceiling = None if task.ceiling == float("inf") else task.ceiling
    return {**facts, "ceiling": ceiling, "kind": task.goal.kind.value, "classes": list(task.goal.classes)}


def _task(facts: dict[str, Any]) -> Remembered:
    facts = dict(facts)
    goal = Goal(Kind(facts.pop("kind")), tuple(facts.pop("classes")))
    ceiling = facts.pop("ceiling")
    inputs = tuple((tuple(shape), dtype) for shape, dtype in facts.pop("inputs"))
    return Remembered(**facts, goal=goal, inputs=inputs, ceiling=float("inf") if ceiling is None else ceiling)


def _form(module: nn.Module) -> dict[str, list[Any]]:
    """Return shape and type of all parameters and buffers by name."""
    tensors = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    return {name: [list(tensor.shape), str(tensor.dtype)] for name, tensor in tensors.items()}


def _frozen(model: ContinualModel) -> dict[str, int]:
    """Return a checksum of every tensor of the module that is used as it came."""
    target = model._learner.memory.target
    generated = {slot.name for slot in target.slots}
    tensors = {**dict(target.module.named_parameters()), **dict(target.module.named_buffers())}
    return {name: _sum(tensor) for name, tensor in tensors.items() if name not in generated}


def _sum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def _check_module(model: ContinualModel, facts: dict[str, Any], path: Path) -> None:
    own, given = _form(model._learner.memory.target.module), facts["module"]
    for name in [*given, *own]:
        if own.get(name) != given.get(name):
            has, had = (_say(form.get(name)) for form in (own, given))
            raise CheckpointError(f"{path} is of another module: '{name}' is {had} there and {has} in this module.")
    now = _frozen(model)
    for name, checksum in facts["frozen"].items():
        if now.get(name) != checksum:
            raise CheckpointError(
                f"{path} was made with other values of '{name}', which are used as they come: load the same "
                "(pretrained) weights into the module first."
            )


def _say(form: list[Any] | None) -> str:
    return "missing" if form is None else f"{form[0]} ({form[1].removeprefix('torch.')})"
