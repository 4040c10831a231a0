"""Benchmarks from data of your own: arrays, torch data sets, folders of images, a CSV file.

Each function returns a `TaskStream`, for a registered benchmark, or for `mnemon.compare(..., benchmark=stream)`.
Targets that are whole numbers or words are classes, floats are numbers to predict. Classes that tasks share have the
same number in all of them; where no two tasks share a class, each task counts its own from 0.
"""

from __future__ import annotations

import csv
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from mnemon.benchmarks.task import Examples, Task, TaskKind, TaskStream
from mnemon.errors import DataError, suggest
from mnemon.seeding import generator

Tasks: TypeAlias = Mapping[str, Any] | Sequence[Any]
"""Data of each task, by its name or in order."""
IMAGES = (".png", ".jpg", ".jpeg", ".bmp", ".gif", ".webp")
TEST_SHARE = 0.2
"""Share of a task's examples on which it is tested, where no test data are given."""


@dataclass
class _Raw:
    """A task as it was given: test data are None where they are to be held out."""

    name: str
    inputs: Tensor
    targets: np.ndarray[Any, Any]
    test_inputs: Tensor | None = None
    test_targets: np.ndarray[Any, Any] | None = None

    @property
    def all_targets(self) -> np.ndarray[Any, Any]:
        """The targets to learn from and to be tested on."""
        return self.targets if self.test_targets is None else np.concatenate([self.targets, self.test_targets])


def stream_from_arrays(
    tasks: Tasks, *, name: str = "own", test_share: float = TEST_SHARE, seed: int = 0
) -> TaskStream:
    """Make a benchmark from arrays: numpy arrays, tensors or lists.

    Args:
        tasks: For each task (inputs, targets), or (inputs, targets, test inputs, test targets); in a dict by the
            names of the tasks, or in a list. Inputs that are bytes become numbers from 0 to 1.
        name: What the benchmark is called.
        test_share: Share of the examples on which a task is tested, where it has no test data.
        seed: Decides which examples these are.

    Returns:
        The tasks, in their order.

    Raises:
        DataError: If a task is empty, or its data do not fit together or do not fit the other tasks.

    Example:
        >>> x, y = torch.randn(10, 4), torch.arange(10) % 2
        >>> stream = mnemon.stream_from_arrays({"left": (x, y), "right": (-x, y)})
        >>> [task.name for task in stream.tasks], stream.outputs_per_task
        (['left', 'right'], 2)
    """
    raw = []
    for task, data in _by_name(tasks):
        if not isinstance(data, tuple | list) or len(data) not in (2, 4):
            raise DataError(f"Task '{task}' must be (inputs, targets), or these and (test inputs, test targets).")
        raw.append(_raw(task, *data))
    return _stream(name, raw, test_share, seed)


def stream_from_datasets(
    tasks: Tasks, *, name: str = "own", test_share: float = TEST_SHARE, seed: int = 0
) -> TaskStream:
    """Make a benchmark from torch data sets: anything with a length and items (input, target).

    Args:
        tasks: For each task a data set, or (training set, test set); in a dict by the names of the tasks, or in a
            list.
        name: What the benchmark is called.
        test_share: Share of the examples on which a task is tested, where it has no test set.
        seed: Decides which examples these are.

    Returns:
        The tasks, in their order; all examples are held in memory.

    Raises:
        DataError: If a task is empty, or its data do not fit together or do not fit the other tasks.

    Example:
        >>> from torch.utils.data import TensorDataset
        >>> x, y = torch.randn(10, 4), torch.arange(10) % 2
        >>> mnemon.stream_from_datasets([TensorDataset(x, y), TensorDataset(-x, y)]).input_shape
        (4,)
    """
    raw = []
    for task, data in _by_name(tasks):
        sets = data if isinstance(data, tuple | list) else (data,)
        raw.append(_raw(task, *(array for one in sets for array in _collected(task, one))))
    return _stream(name, raw, test_share, seed)


def stream_from_folder(
    folder: str | Path,
    *,
    size: tuple[int, int] | None = None,
    name: str = "",
    test_share: float = TEST_SHARE,
    seed: int = 0,
) -> TaskStream:
    """Make a benchmark from images in folders: TASK/CLASS/IMAGE, or train/TASK/CLASS/IMAGE and test/TASK/CLASS/IMAGE.

    Args:
        folder: The folder with a folder for each task, which are learned in the order of their names.
        size: Height and width to which images are scaled. Default: as they are, which must be the same for all.
        name: What the benchmark is called. Default: as the folder.
        test_share: Share of the images on which a task is tested, where there is no folder test.
        seed: Decides which images these are.

    Returns:
        The tasks. Images are grey if all of them are, otherwise in colours.

    Raises:
        DataError: If there is no image, a task is empty, or sizes differ.

    Example:
        >>> from PIL import Image
        >>> for place in ("pets/cat", "pets/dog", "food/apple", "food/pear"):
        ...     Path("pictures", place).mkdir(parents=True)
        ...     for i in range(3):
        ...         Image.new("RGB", (32, 32)).save(f"pictures/{place}/{i}.png")
        >>> stream = mnemon.stream_from_folder("pictures", size=(28, 28))
        >>> [task.name for task in stream.tasks], stream.input_shape
        (['food', 'pets'], (3, 28, 28))
    """
    home = Path(folder)
    if not home.is_dir():
        raise DataError(f"There is no folder {home}.")
    apart = (home / "train").is_dir() and (home / "test").is_dir()
    train = home / "train" if apart else home
    names = _folders(train)
    if not names:
        raise DataError(f"There is no folder of a task in {train}: images are in TASK/CLASS/IMAGE.")
    parts = [train, home / "test"] if apart else [train]
    files = {part: {task: _images(part / task) for task in names} for part in parts}
    mode = _mode([path for of in files.values() for found in of.values() for path, _ in found])
    raw = [_raw(task, *(a for of in files.values() for a in _loaded(of[task], mode, size))) for task in names]
    return _stream(name or home.name, raw, test_share, seed)


def stream_from_csv(
    path: str | Path,
    *,
    task: str = "task",
    target: str = "target",
    name: str = "",
    test_share: float = TEST_SHARE,
    seed: int = 0,
) -> TaskStream:
    """Make a benchmark from a CSV file with a line of names, a column for the task and one for the target.

    Args:
        path: The file. All other columns are inputs, which are numbers.
        task: The column with the task of each line; tasks are learned in the order in which they first occur.
        target: The column with the class, a whole number or a word; or, if all are numbers and one has a point, with
            a number to predict.
        name: What the benchmark is called. Default: as the file.
        test_share: Share of a task's lines on which it is tested.
        seed: Decides which lines these are.

    Returns:
        The tasks.

    Raises:
        DataError: If the file cannot be read, a column is missing, or an input is no number.

    Example:
        >>> months = ("may", "june")
        >>> lines = ["month,age,bought", *(f"{month},{20 + i},{i % 2}" for month in months for i in range(9))]
        >>> n_bytes = Path("visits.csv").write_text("\\n".join(lines))
        >>> [task.name for task in mnemon.stream_from_csv("visits.csv", task="month", target="bought").tasks]
        ['may', 'june']
    """
    path = Path(path)
    columns, lines = _read_csv(path)
    for column in (task, target):
        if column not in columns:
            raise DataError(
                f"{path} has no column '{column}'.{suggest(column, columns)} It has: {', '.join(columns)}."
            )
    inputs = [column for column in columns if column not in (task, target)]
    if not inputs or not lines:
        raise DataError(f"{path} has no {'columns of inputs' if lines else 'lines'} beside the names of columns.")
    answers = _answers([str(line[target]) for line in lines])
    rows: dict[str, list[tuple[list[float], Any]]] = {}
    for number, (line, answer) in enumerate(zip(lines, answers, strict=True), start=2):
        numbers = [_number(line[column], f"{path}, line {number}: column '{column}'") for column in inputs]
        rows.setdefault(str(line[task]), []).append((numbers, answer))
    raw = [_raw(one, *map(list, zip(*found, strict=True))) for one, found in rows.items()]
    return _stream(name or path.stem, raw, test_share, seed)


# From what was given to tensors


def _by_name(tasks: Tasks) -> list[tuple[str, Any]]:
    found = list(tasks.items()) if isinstance(tasks, Mapping) else [(str(i + 1), one) for i, one in enumerate(tasks)]
    if not found:
        raise DataError("A benchmark needs at least one task.")
    return [(str(name), data) for name, data in found]


def _raw(task: str, inputs: Any, targets: Any, test_inputs: Any = None, test_targets: Any = None) -> _Raw:
    raw = _Raw(task, _inputs(inputs, task), _targets(targets, task))
    if test_inputs is not None:
        raw.test_inputs, raw.test_targets = _inputs(test_inputs, task), _targets(test_targets, task)
    for some, answers in ((raw.inputs, raw.targets), (raw.test_inputs, raw.test_targets)):
        if some is not None and answers is not None and len(some) != len(answers):
            raise DataError(f"Task '{task}' has {len(some)} inputs but {len(answers)} targets.")
    return raw


def _inputs(given: Any, task: str) -> Tensor:
    """Return inputs as a tensor of bytes or floats."""
    try:
        tensor = _tensor(given)
    except (RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"The inputs of task '{task}' are no array of numbers of one shape: {error}.") from error
    if tensor.ndim < 2:
        raise DataError(f"The inputs of task '{task}' have shape {tuple(tensor.shape)}: a row for each is expected.")
    if len(tensor) == 0:
        raise DataError(f"Task '{task}' is empty.")
    if tensor.dtype is torch.uint8:
        return tensor
    tensor = tensor.to(torch.get_default_dtype())
    if not bool(tensor.isfinite().all()):
        raise DataError(f"The inputs of task '{task}' hold values that are not finite numbers.")
    return tensor


def _tensor(given: Any) -> Tensor:
    if isinstance(given, Tensor):
        return given.detach().cpu()
    if isinstance(given, list | tuple) and given and isinstance(given[0], Tensor):
        return torch.stack([_tensor(one) for one in given])
    return torch.from_numpy(np.array(given))


def _targets(given: Any, task: str) -> np.ndarray[Any, Any]:
    """Return targets as an array: of words, integers or floats."""
    try:
        found = given.detach().cpu().numpy() if isinstance(given, Tensor) else np.asarray(given)
    except ValueError as error:
        raise DataError(f"The targets of task '{task}' are no array: {error}.") from error
    if found.dtype.kind == "f" and not np.isfinite(found).all():
        raise DataError(f"The targets of task '{task}' hold values that are not finite numbers.")
    return found


def _collected(task: str, dataset: Any) -> tuple[Any, Any]:
    """Return the inputs and the targets of a torch data set."""
    if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
        raise DataError(f"Task '{task}' must be a data set with a length and items, not {type(dataset).__name__}.")
    if len(dataset) == 0:
        raise DataError(f"Task '{task}' is empty.")
    items = [dataset[i] for i in range(len(dataset))]
    if not all(isinstance(item, tuple | list) and len(item) >= 2 for item in items):
        raise DataError(f"The items of task '{task}' must be (input, target).")
    try:
        inputs = torch.stack([_tensor(item[0]) for item in items])
    except (RuntimeError, TypeError, ValueError) as error:
        raise DataError(f"The inputs of task '{task}' are not of one shape: {error}.") from error
    return inputs, [item[1].tolist() if isinstance(item[1], Tensor) else item[1] for item in items]


# From targets to a stream


def _stream(name: str, tasks: Sequence[_Raw], test_share: float, seed: int) -> TaskStream:
    if not 0 < test_share < 1:
        raise DataError(f"test_share must lie between 0 and 1, not {test_share}.")
    regression = any(task.all_targets.dtype.kind == "f" for task in tasks)
    classes: list[Any] | None = None if regression else _classes(tasks)
    every = classes or [None] * len(tasks)
    made = tuple(_task(task, own, test_share, seed) for task, own in zip(tasks, every, strict=True))
    first = made[0].train
    width = first.targets.shape[1] if classes is None else max(len(of) for of in classes)
    kind = TaskKind.REGRESSION if regression else TaskKind.CLASSIFICATION
    return TaskStream(name, kind, made, tuple(first.inputs.shape[1:]), width)


def _classes(tasks: Sequence[_Raw]) -> list[list[Any]]:
    """Return the classes of each task in the order of their numbers."""
    for task in tasks:
        if task.all_targets.ndim != 1:
            shape = task.all_targets.shape
            raise DataError(f"The targets of task '{task.name}' have shape {shape}: one class for each is expected.")
    own = [_sorted(value.item() for value in task.all_targets) for task in tasks]
    every = _sorted(value for of in own for value in of)
    return own if sum(map(len, own)) == len(every) else [every] * len(own)


def _sorted(values: Iterable[Any]) -> list[Any]:
    """Return different values in their order; numbers come before words."""
    return sorted(set(values), key=lambda value: (isinstance(value, str), value))


def _task(raw: _Raw, classes: list[Any] | None, test_share: float, seed: int) -> Task:
    inputs, targets = raw.inputs, _numbered(raw.targets, classes, raw.name)
    if raw.test_inputs is not None and raw.test_targets is not None:
        test = Examples(raw.test_inputs, _numbered(raw.test_targets, classes, raw.name))
        return Task(raw.name, Examples(inputs, targets), test)
    n = max(round(test_share * len(inputs)), 1)
    if n >= len(inputs):
        some = "example" if len(inputs) == 1 else "examples"
        raise DataError(f"Task '{raw.name}' has {len(inputs)} {some}: too few to test on a part of them.")
    index = torch.randperm(len(inputs), generator=generator(seed, "held-out"))
    test, train = (Examples(inputs[part], targets[part]) for part in (index[:n], index[n:]))
    return Task(raw.name, train, test)


def _numbered(targets: np.ndarray[Any, Any], classes: list[Any] | None, task: str) -> Tensor:
    """Return classes as their numbers, and numbers to predict as rows."""
    if classes is not None:
        number = {value: i for i, value in enumerate(classes)}
        return torch.tensor([number[value.item()] for value in targets])
    if targets.dtype.kind not in "fiub":
        raise DataError(f"The targets of task '{task}' are words, those of others numbers to predict.")
    rows = torch.from_numpy(targets.astype(float)).to(torch.get_default_dtype())
    return rows[:, None] if rows.ndim == 1 else rows


# Images


def _folders(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir() if path.is_dir() and not path.name.startswith("."))


def _images(folder: Path) -> list[tuple[Path, str]]:
    """Return the images of a task with their classes."""
    classes = _folders(folder) if folder.is_dir() else []
    found = [(path, name) for name in classes for path in sorted((folder / name).iterdir())]
    images = [(path, name) for path, name in found if path.suffix.lower() in IMAGES]
    if not images:
        raise DataError(f"There is no image in {folder}: images are in TASK/CLASS/IMAGE, such as 0.png.")
    return images


def _mode(paths: Sequence[Path]) -> str:
    """Return L if all images are grey, and RGB otherwise."""
    from PIL import Image, UnidentifiedImageError

    for path in paths:
        try:
            with Image.open(path) as image:
                if image.mode not in ("1", "L"):
                    return "RGB"
        except (UnidentifiedImageError, OSError) as error:
            raise DataError(f"The image {path} cannot be read: {error}.") from error
    return "L"


def _loaded(images: Sequence[tuple[Path, str]], mode: str, size: tuple[int, int] | None) -> tuple[Tensor, list[str]]:
    """Return images as bytes [n, channels, height, width], and their classes."""
    from PIL import Image

    found: list[np.ndarray[Any, Any]] = []
    for path, _ in images:
        try:
            with Image.open(path) as image:
                picture = image.convert(mode).resize(size[::-1]) if size else image.convert(mode)
        except OSError as error:
            raise DataError(f"The image {path} cannot be read: {error}.") from error
        found.append(np.asarray(picture).reshape(picture.height, picture.width, -1).transpose(2, 0, 1))
        if found[-1].shape != found[0].shape:
            sizes = " and ".join(f"{a.shape[1]} x {a.shape[2]}" for a in (found[0], found[-1]))
            raise DataError(f"Images are of different sizes, {sizes} ({path}): scale them, such as size=(28, 28).")
    return torch.from_numpy(np.stack(found)), [name for _, name in images]


# CSV


def _read_csv(path: Path) -> tuple[list[str], list[dict[str, Any]]]:
    try:
        with path.open(newline="", encoding="utf-8-sig") as file:
            reader = csv.DictReader(file)
            lines = list(reader)
            return list(reader.fieldnames or ()), lines
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise DataError(f"The file {path} cannot be read: {error}.") from error


def _answers(words: list[str]) -> list[Any]:
    """Return words as whole numbers or as floats, if all of them are."""
    for kind in (int, float):
        try:
            return [kind(word) for word in words]
        except ValueError:
            continue
    return words


def _number(word: Any, where: str) -> float:
    try:
        return float(word)
    except (TypeError, ValueError) as error:
        raise DataError(f"{where} holds {word!r}, which is no number.") from error
