"""A task's network as a file that can be run without mnemon, checked by running it."""

from __future__ import annotations

import contextlib
import copy
import io
import logging
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from mnemon import extras
from mnemon.continual.adapters import without_adapters
from mnemon.continual.data import Inputs, collect_inputs
from mnemon.continual.model import ContinualModel
from mnemon.errors import UsageError, choose, first_line
from mnemon.whole_files import replacing

TOLERANCE = 1e-5
"""Maximum difference between outputs of the file and the network; relative to the largest one if that is above 1."""
EXAMPLES = 3
"""Inputs on which a file is checked, together and one by one; torch.export treats a size of 1 as a constant."""

AnswerFunction = Callable[..., Tensor]
Writer = Callable[[nn.Module, Inputs, Path], None]
Reader = Callable[[Path, nn.Module], AnswerFunction]


def export(model: ContinualModel, task: str, path: str | Path, example: Any = None) -> Path:
    """Write the network of a task to a file that can be used without mnemon, and check it by running it.

    The batch size stays free.

    Args:
        model: The model.
        task: The name of the task.
        path: The file. Its ending is its format: .safetensors (the state dict of the module), .pt2 (a program of
            torch.export) or .onnx (for any ONNX runtime; needs the extra `onnx`).
        example: Inputs to check it with. Default: random inputs of the task's form; give your own if the network does
            not work on them.

    Returns:
        The path of the file.

    Raises:
        UsageError: There is no such task, or its network cannot be exported.

    Example:
        >>> x, y = torch.rand(60, 4), torch.arange(60) % 3
        >>> model = mnemon.ContinualModel(nn.Linear(4, 3))
        >>> learned = model.learn((x, y), task="monday", steps=5, quiet=True)
        >>> mnemon.export(model, "monday", "monday.safetensors").name
        'monday.safetensors'
    """
    path = Path(path)
    write, read = choose("ending", path.suffix, FORMATS)
    network = model.network(task).cpu()
    if path.suffix == ".onnx":
        extras.require("onnx", "ONNX needs")
    given = _random_inputs(model, task, network) if example is None else example
    inputs = collect_inputs(given, torch.device("cpu"), model.state.floats)
    inputs = tuple(part[:EXAMPLES] if len(part) > 1 else part.expand(2, *part.shape[1:]) for part in inputs)
    with _aside(path) as aside, torch.no_grad():
        try:
            with _quietly():
                write(network, inputs, aside)
                answer = read(aside, _as_it_came(model))
                same = [_agree(answer(*batch), network(*batch)) for batch in _together_and_each(inputs)]
        except OSError:
            raise
        except Exception as error:  # the exporters raise errors of many kinds
            raise UsageError(
                f"The network of task '{task}' cannot be exported as {path.suffix}: {first_line(error)}"
            ) from error
        if not all(same):
            raise UsageError(
                f"The network of task '{task}' was not exported: the outputs of {path.name} are different."
            )
    return path


def _as_it_came(model: ContinualModel) -> nn.Module:
    """Return a copy of the user's module, to load a state dict into."""
    return without_adapters(copy.deepcopy(model.state.learner.memory.target.module)).cpu().eval()


# The formats


def _write_state(network: nn.Module, inputs: Inputs, path: Path) -> None:
    # Clones: safetensors refuses tensors that share memory.
    save_file({name: tensor.contiguous().clone() for name, tensor in network.state_dict().items()}, path)


def _read_state(path: Path, module: nn.Module) -> AnswerFunction:
    module.load_state_dict(load_file(path))
    return module


def _program(network: nn.Module, inputs: Inputs) -> tuple[torch.export.ExportedProgram, Any]:
    """Return the network as a program, and its dynamic sizes."""
    shapes = torch.export.ShapesCollection()
    for part in inputs:
        shapes[part] = {0: torch.export.Dim("batch")}
    free = shapes.dynamic_shapes(network, inputs)
    return torch.export.export(network, inputs, dynamic_shapes=free), free


def _write_program(network: nn.Module, inputs: Inputs, path: Path) -> None:
    torch.export.save(_program(network, inputs)[0], path)


def _read_program(path: Path, module: nn.Module) -> AnswerFunction:
    return torch.export.load(path).module()


def _write_onnx(network: nn.Module, inputs: Inputs, path: Path) -> None:
    program, free = _program(network, inputs)
    # The free sizes once more, for their names.
    onnx = torch.onnx.export(program, dynamo=True, dynamic_shapes=free, verbose=False)
    assert onnx is not None
    onnx.save(path, external_data=False)


def _read_onnx(path: Path, module: nn.Module) -> AnswerFunction:
    import onnxruntime

    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [entry.name for entry in session.get_inputs()]

    def answer(*inputs: Tensor) -> Tensor:
        fed = {name: part.numpy() for name, part in zip(names, inputs, strict=True)}
        return torch.from_numpy(session.run(None, fed)[0])

    return answer


FORMATS: dict[str, tuple[Writer, Reader]] = {
    ".safetensors": (_write_state, _read_state),
    ".pt2": (_write_program, _read_program),
    ".onnx": (_write_onnx, _read_onnx),
}


# The check


def _random_inputs(model: ContinualModel, task: str, network: nn.Module) -> Inputs:
    """Return random inputs with the shapes and types of a task."""
    random = torch.Generator().manual_seed(0)
    n_tokens = min((m.num_embeddings for m in network.modules() if isinstance(m, nn.Embedding)), default=2)

    def draw(shape: tuple[int, ...], name: str) -> Tensor:
        dtype, size = getattr(torch, name), (EXAMPLES, *shape)
        if dtype.is_floating_point:
            return torch.randn(size, generator=random).to(dtype)
        return torch.randint(256 if dtype == torch.uint8 else n_tokens, size, generator=random).to(dtype)

    return tuple(draw(*entry) for entry in model.about(task).inputs)


def _together_and_each(inputs: Inputs) -> list[Inputs]:
    return [inputs, *zip(*(part.split(1) for part in inputs), strict=True)]


def _agree(found: Tensor, wanted: Tensor) -> bool:
    """Tell whether two outputs are equal up to rounding, which is coarser in half precision."""
    if found.shape != wanted.shape or found.dtype != wanted.dtype:
        return False
    rounding = torch.finfo(wanted.dtype).eps if wanted.is_floating_point() else 0.0
    largest = float(wanted.double().nan_to_num(posinf=0, neginf=0).abs().max())
    return torch.allclose(found, wanted, 0, max(TOLERANCE, 10 * rounding) * max(1.0, largest), equal_nan=True)


@contextlib.contextmanager
def _aside(path: Path) -> Iterator[Path]:
    """Yield a temporary path, which replaces `path` at the end, or is removed after an error."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with replacing(path) as aside:
            yield aside
    except OSError as error:
        raise UsageError(f"Could not write {path}: {error}.") from error


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    """Silence messages of the exporters."""
    before = logging.root.manager.disable
    with (
        warnings.catch_warnings(),
        contextlib.redirect_stdout(io.StringIO()),
        contextlib.redirect_stderr(io.StringIO()),
    ):
        warnings.simplefilter("ignore")
        logging.disable(logging.WARNING)
        try:
            yield
        finally:
            logging.disable(before)
