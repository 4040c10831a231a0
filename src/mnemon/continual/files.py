"""A model in one file: safetensors, with everything else as JSON in its header. Nothing in it can run code."""

from __future__ import annotations

import zlib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from mnemon.config import build
from mnemon.continual import recognition_files
from mnemon.continual.adapters import count_added
from mnemon.continual.auto_size import hypernet_for
from mnemon.continual.densities import NUMBERS_PER_INPUT
from mnemon.continual.learned_task import UNKNOWN, LearnedTask
from mnemon.continual.learner import CODES
from mnemon.continual.model import ContinualModel
from mnemon.continual.modules import Form, check, form_of
from mnemon.continual.objective import ObjectiveKind
from mnemon.continual.recognition import Recogniser, Statistics, Way
from mnemon.continual.recognition_files import RecognitionFacts
from mnemon.continual.state import Kind, ModelSettings, State
from mnemon.errors import CheckpointError, UsageError
from mnemon.hypernet import least_count
from mnemon.memory.exact import ENTRY_NBYTES
from mnemon.seeding import with_random_numbers
from mnemon.training import checkpoint
from mnemon.whole_files import is_file, is_there

FORMAT = 4
EARLIER = (2, 3)
"""Formats of earlier versions that are read, too."""
SUFFIX = ".mnemon"
LEAST_ROOM = 10**6
"""Adapters with at most this many numbers are created without further checks."""
MOST_PER_BYTE = 1000
"""Maximum numbers per byte of a code: most numbers may be 0, which take almost no space."""


def save(model: ContinualModel, path: str | Path) -> Path:
    """Write a model to a file, completely or not at all; return its path."""
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
        "recognition": None if state.sums is None else _plain(recognition_files.facts_of(state.sums)),
    }
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        tensors = {**state.learner.tensors(), **_sums(state)}
        checkpoint.write(path, tensors, facts, packed=state.settings.memory is Kind.EXACT)
    except OSError as error:
        kept = " The earlier file is as it was." if is_file(path) else ""
        raise CheckpointError(f"Could not save the model as {path}: {error.strerror or error}.{kept}") from error
    return path


def load(
    path: str | Path, module: nn.Module | None = None, *, recognise: Statistics | Recogniser | None = None
) -> ContinualModel:
    """Read a model from a file.

    Args:
        path: The file that `ContinualModel.save` wrote; without an ending, `.mnemon` is added.
        module: A module with the same architecture as the original one. Generated weights come from the file; all
            others must have the same values as before.
        recognise: Only for a model that recognises tasks by your own code, which is not in the file: that object.

    Returns:
        The model, with all tasks that it has learned.

    Raises:
        CheckpointError: The file is missing or damaged, or the module does not fit it.

    Example:
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3))
        >>> mnemon.load(model.save("memory"), nn.Linear(4, 3)).tasks
        []
    """
    path = _file(path)
    if not is_there(path):
        raise CheckpointError(f"There is no file {path}.")
    if module is None:
        raise CheckpointError(
            f"The file holds weights but no code: call load('{path}', module) with a module of the same architecture."
        )
    check(module)
    tensors, facts = checkpoint.read(path, (FORMAT, *EARLIER))
    try:
        return _model(path, tensors, build(_Facts, facts, "header"), module, recognise)
    except CheckpointError:
        raise
    except (UsageError, ValueError) as error:
        raise CheckpointError(
            f"{path} is damaged: its header does not describe a model ({str(error).rstrip('.')})."
        ) from error


@dataclass(frozen=True)
class _Facts:
    """The content of the header."""

    format: int
    settings: ModelSettings
    tasks: list[dict[str, Any]]
    n_learned: int
    n_inputs: int | None
    module: dict[str, tuple[tuple[int, ...], str]]
    """Shape and type of each tensor of the module."""
    generated: tuple[str, ...]
    frozen: dict[str, int]
    """A checksum of each tensor that is not generated."""
    recognition: RecognitionFacts | None = None
    """The sums by which tasks are recognised; earlier versions have none."""


def _model(
    path: Path, tensors: dict[str, Tensor], facts: _Facts, module: nn.Module, recognise: Any
) -> ContinualModel:
    _check_form(module, facts.module, path)
    sums = {name: tensor for name, tensor in tensors.items() if name.startswith(recognition_files.PREFIX)}
    tensors = {name: tensor for name, tensor in tensors.items() if name not in sums}
    _check_sizes(facts, tensors, module)
    settings = {f.name: getattr(facts.settings, f.name) for f in fields(ModelSettings) if f.name != "statistics"}
    settings["recognise"] = _recognise(path, facts.settings, recognise)
    model = ContinualModel(module, **settings)
    state = model.state
    _check_weights(state, facts, path)
    if facts.n_inputs is not None:
        state.make_densities_for(facts.n_inputs)
    moved = checkpoint.to_device(tensors, state.device)
    with_random_numbers(0, lambda: state.learner.restore(moved, len(facts.tasks), learning=False))
    for entry in facts.tasks:
        task = _task(entry)
        if task.name in (*state.names, UNKNOWN, ""):
            raise ValueError(f"two tasks have the name '{task.name}', or the name is not allowed.")
        state.tasks.append(task)
    if not all(0 <= task.serial < facts.n_learned for task in state.tasks):
        raise ValueError(f"it has a task that is not among the {facts.n_learned} learned ones.")
    state.n_learned = facts.n_learned
    if state.sums is not None:
        n_classes = [max(len(task.goal.classes), 1) for task in state.tasks]
        recognition_files.take_up(state.sums, facts.recognition, sums, n_classes)
    return model


def _sums(state: State) -> dict[str, Tensor]:
    return {} if state.sums is None else recognition_files.tensors_of(state.sums)


def _recognise(path: Path, settings: ModelSettings, given: Any) -> Any:
    """Return the argument `recognise` of the model; the user must give own code again."""
    if settings.recognise in (Way.OWN, Way.FEATURES):
        of_features = settings.recognise == Way.FEATURES
        if given is None or (isinstance(given, Statistics) and given.features is not None) != of_features:
            what = "Statistics(features=...)" if of_features else "the object"
            raise CheckpointError(
                f"{path} recognises tasks by your own code, which is not in the file: call load(..., "
                f"recognise={what})."
            )
        return replace(settings.statistics, features=given.features) if of_features else given
    if given is not None:
        raise CheckpointError(f"{path} already says how tasks are recognised: leave out recognise.")
    if settings.recognise == Way.STATISTICS:
        return settings.statistics
    return None if settings.recognise == Way.NONE else settings.recognise


def _check_sizes(facts: _Facts, tensors: dict[str, Tensor], module: nn.Module) -> None:
    """Compare the sizes in the header with the content of the file, before memory of that size is allocated."""
    if facts.settings.memory is Kind.EXACT:
        _check_coded_sizes(facts, tensors, module)
    else:
        _check_generated_sizes(facts, tensors, module)
    n_inputs, n_numbers = facts.n_inputs, _numbers(tensors, "learner/densities.memory.own")
    if n_inputs is not None and not 0 < n_inputs * NUMBERS_PER_INPUT <= n_numbers:
        raise ValueError(f"densities of {n_inputs} inputs do not fit {n_numbers} numbers.")


def _check_coded_sizes(facts: _Facts, tensors: dict[str, Tensor], module: nn.Module) -> None:
    n_bytes = sum(tensor.nbytes for name, tensor in tensors.items() if name.startswith(CODES))
    if len(facts.tasks) * ENTRY_NBYTES > n_bytes:
        raise ValueError(f"it lists {len(facts.tasks)} tasks, but its codes are too short for them.")
    adapters = facts.settings.adapters
    if adapters is not None and count_added(module, adapters) > max(LEAST_ROOM, MOST_PER_BYTE * n_bytes):
        raise ValueError(f"adapters of rank {adapters.rank} have too many numbers for its codes.")


def _check_generated_sizes(facts: _Facts, tensors: dict[str, Tensor], module: nn.Module) -> None:
    n_tasks = sum(name.startswith("learner/memory.embeddings.") for name in tensors)
    if len(facts.tasks) != n_tasks:
        raise ValueError(f"it lists {len(facts.tasks)} tasks, but the file holds {n_tasks}.")
    settings, held = facts.settings, _numbers(tensors, "learner/memory.own")
    if settings.adapters is not None and count_added(module, settings.adapters) != held:
        raise ValueError(f"adapters of rank {settings.adapters.rank} do not fit {held} numbers.")
    hypernet = settings.hypernet or hypernet_for(max(held, 1), settings.compression)
    n_numbers = _numbers(tensors, "learner/memory.hypernet.")
    if len(hypernet.hidden) > len(tensors) or least_count(hypernet, held) > n_numbers:
        raise ValueError(f"the hypernetwork that it claims is larger than the {n_numbers} numbers in the file.")


def _numbers(tensors: dict[str, Tensor], prefix: str) -> int:
    return sum(tensor.numel() for name, tensor in tensors.items() if name.startswith(prefix))


def _file(path: str | Path) -> Path:
    """Return the path of a model's file; `.mnemon` is added if it has no ending."""
    try:
        path = Path(path)
    except TypeError:
        raise UsageError(f"The file of a model must be a path, not {type(path).__name__}.") from None
    if path.name in ("", "..") or "\0" in str(path):
        raise UsageError(f"The file of a model needs a name; '{path}' has none.")
    return path if path.suffix else path.with_name(path.name + SUFFIX)


def _plain(value: Any) -> Any:
    """Return a value in the types of JSON."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    return [_plain(v) for v in value] if isinstance(value, (tuple, list)) else getattr(value, "value", value)


def _task_facts(task: LearnedTask) -> dict[str, Any]:
    facts = _plain({k: v for k, v in vars(task).items() if k != "goal"})
    return {**facts, "kind": task.goal.kind.value, "classes": list(task.goal.classes)}


def _task(facts: dict[str, Any]) -> LearnedTask:
    goal = {name: facts[name] for name in ("kind", "classes") if name in facts}
    rest = {name: value for name, value in facts.items() if name not in goal}
    task: LearnedTask = build(LearnedTask, {**rest, "goal": goal}, "task")
    kind, classes = task.goal.kind, task.goal.classes
    if not task.inputs or task.n_examples < 0 or task.steps < 0:
        raise ValueError(f"task '{task.name}' has no inputs, or a negative number of examples or steps.")
    if (kind is ObjectiveKind.CLASSES) != (len(classes) > 1) or list(classes) != sorted({*classes}):
        raise ValueError(f"task '{task.name}' has no classes, or some of them twice.")
    if (kind is ObjectiveKind.CLASSES) != (task.entropies is not None):
        raise ValueError(f"task '{task.name}' needs the entropies of its answers if it has classes, and none if not.")
    return task


def _frozen(state: State) -> dict[str, int]:
    """Return a checksum of every tensor of the module that is not generated."""
    target = state.learner.memory.target
    generated = {slot.name for slot in target.slots}
    tensors = {**dict(target.module.named_parameters()), **dict(target.module.named_buffers())}
    return {name: _sum(tensor) for name, tensor in tensors.items() if name not in generated}


def _sum(tensor: Tensor) -> int:
    return zlib.crc32(tensor.detach().cpu().contiguous().flatten().view(torch.uint8).numpy().tobytes())


def _check_form(module: nn.Module, given: Form, path: Path) -> None:
    """Refuse a module whose tensors have other shapes or types, and name the first that differs."""
    own = form_of(module)
    for name in [*given, *own]:
        if own.get(name) != given.get(name):
            has, had = (_say(form.get(name)) for form in (own, given))
            raise CheckpointError(
                f"{path} belongs to another module: '{name}' is {had} in the file and {has} in this module."
            )


def _check_weights(state: State, facts: _Facts, path: Path) -> None:
    """Refuse a module with other frozen parameters, or with other values of them."""
    own, given = [slot.name for slot in state.learner.memory.target.slots], facts.generated
    for name in [*given, *own]:
        if (name in own) != (name in given):
            had, has = ("trainable", "frozen") if name in given else ("frozen", "trainable")
            raise CheckpointError(
                f"{path} was saved with '{name}' {had}, but it is {has} in this module: set requires_grad as before."
            )
    for name, before in zip(own, given, strict=False):  # one name may be there twice
        if name != before:
            raise CheckpointError(
                f"{path} belongs to a module with its parameters in another order: it has '{before}' where this "
                f"module has '{name}'."
            )
    now = _frozen(state)
    for name, checksum in facts.frozen.items():
        if now.get(name) != checksum:
            raise CheckpointError(
                f"{path} was saved with other values of '{name}', which are not generated: load the same "
                "(pretrained) weights into the module first."
            )


def _say(form: tuple[tuple[int, ...], str] | None) -> str:
    return "missing" if form is None else f"{list(form[0])} ({form[1]})"
