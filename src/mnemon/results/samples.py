"""What a replay model draws, kept as small PNG files: right after a task was learned, and at the end.

samples/task-01-right-after.png     a grid of one task's samples
samples/task-01-at-the-end.png      the same noise, after the last task
samples/sheet.png                   a row per task: right after, then at the end
"""

from __future__ import annotations

import math
from enum import Enum
from pathlib import Path

import numpy as np
from PIL import Image

from mnemon.errors import UsageError
from mnemon.whole_files import check_regular, replacing

FOLDER, SHEET = "samples", "sheet.png"
N_SAMPLES = 64
_COLUMNS, _SHOWN = 8, 10
_SIDE, _GAP, _MIDDLE = 28, 2, 10
"""Pixels of the sheet: the least that an image is wide, between two images, and between the two moments."""


class Moment(str, Enum):
    """When samples were drawn."""

    RIGHT_AFTER = "right-after"
    """When the task had just been learned."""
    AT_THE_END = "at-the-end"
    """After the last task."""


def path_of(folder: Path, task_id: int, moment: Moment) -> Path:
    """Return the file of one task's samples."""
    return folder / FOLDER / f"task-{task_id + 1:02d}-{moment.value}.png"


def write(folder: Path, task_id: int, moment: Moment, images: np.ndarray) -> None:
    """Keep images [n, pixels] with values from 0 to 1, as a grid; nothing, if they are not square."""
    side = math.isqrt(images.shape[1])
    if side * side != images.shape[1]:
        return
    cells = (np.clip(images, 0, 1) * 255).round().astype(np.uint8).reshape(-1, side, side)
    _save(path_of(folder, task_id, moment), _grid(cells, _COLUMNS))


def read(folder: Path, task_id: int, moment: Moment) -> np.ndarray:
    """Return one task's samples [n, side, side] as bytes."""
    path = path_of(folder, task_id, moment)
    try:
        grid = _pixels(path)
        side = grid.shape[1] // _COLUMNS
        return grid.reshape(-1, side, _COLUMNS, side).transpose(0, 2, 1, 3).reshape(-1, side, side)
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(f"{path} holds no samples of mnemon ({error}): delete it, then resume.") from error


def check(folder: Path) -> None:
    """Refuse samples that cannot be read or do not fit, before hours are spent on what they are compared with."""
    shape: tuple[int, ...] = ()
    for task_id in _tasks_at(folder, Moment.RIGHT_AFTER):
        found = read(folder, task_id, Moment.RIGHT_AFTER).shape
        if shape not in ((), found):
            path = path_of(folder, task_id, Moment.RIGHT_AFTER)
            raise UsageError(f"{path} holds samples of another size than other tasks have: delete it, then resume.")
        shape = found


def tasks_at_both_moments(folder: Path) -> list[int]:
    """Return the tasks of which there are samples from right after and from the end."""
    one, other = (_tasks_at(folder, moment) for moment in Moment)
    return [task_id for task_id in one if task_id in other]


def _tasks_at(folder: Path, moment: Moment) -> list[int]:
    """Return the tasks of which there are samples from a moment; files with other names are no matter."""
    names = (path.name.split("-")[1] for path in (folder / FOLDER).glob(f"task-*-{moment.value}.png"))
    tasks = sorted(int(name) - 1 for name in names if name.isdecimal())
    return [task_id for task_id in tasks if task_id >= 0 and path_of(folder, task_id, moment).exists()]


def drift(folder: Path, task_id: int) -> float:
    """Return the mean squared difference of a task's samples, at the end from right after, for values from 0 to 1."""
    one, other = (images.astype(float) / 255 for images in _at_both_moments(folder, task_id))
    return float(np.square(one - other).mean())


def _at_both_moments(folder: Path, task_id: int) -> tuple[np.ndarray, np.ndarray]:
    one, other = (read(folder, task_id, moment) for moment in Moment)
    if one.shape != other.shape:
        path = path_of(folder, task_id, Moment.RIGHT_AFTER)
        raise UsageError(f"{path} holds samples of another size than those at the end: delete it, then resume.")
    return one, other


def _pixels(path: Path) -> np.ndarray:
    """Return the pixels of a picture; raises OSError or ValueError."""
    check_regular(path)
    try:
        with Image.open(path) as image:
            return np.asarray(image)
    except (OSError, ValueError):
        raise
    except Exception as error:  # of a broken file Pillow raises nearly anything, such as SyntaxError and struct.error
        raise ValueError(f"it is no picture: {error}") from error


def write_sheet(folder: Path) -> None:
    """Put the tasks' first samples side by side: a row per task, right after, then at the end."""
    rows = []
    for task_id in tasks_at_both_moments(folder):
        halves = [_row(images[:_SHOWN]) for images in _at_both_moments(folder, task_id)]
        middle = np.full((len(halves[0]), _MIDDLE - _GAP), 255, np.uint8)
        rows.append(np.concatenate([halves[0], middle, halves[1]], axis=1))
    if rows:
        _save(folder / FOLDER / SHEET, np.concatenate(rows))


def _row(images: np.ndarray) -> np.ndarray:
    """Put images side by side, small ones enlarged, each with a white line on its right and below."""
    times = -(-_SIDE // images.shape[1])
    large = images.repeat(times, axis=1).repeat(times, axis=2)
    return np.concatenate(list(np.pad(large, ((0, 0), (0, _GAP), (0, _GAP)), constant_values=255)), axis=1)


def width_of(picture: Path) -> int:
    """Return how many pixels a picture is wide; 0 if there is none that can be read."""
    try:
        return _pixels(picture).shape[1]
    except (OSError, ValueError, IndexError):
        return 0


def _grid(cells: np.ndarray, columns: int) -> np.ndarray:
    n, side, _ = cells.shape
    rows = -(-n // columns)
    padded = np.zeros((rows * columns, side, side), np.uint8)
    padded[:n] = cells
    return padded.reshape(rows, columns, side, side).transpose(0, 2, 1, 3).reshape(rows * side, columns * side)


def _save(path: Path, grid: np.ndarray) -> None:
    try:
        path.parent.mkdir(exist_ok=True)
        with replacing(path) as aside:
            Image.fromarray(grid).save(aside, format="PNG", optimize=True)
    except OSError as error:
        raise UsageError(f"Could not write {path}: {error}.") from error
