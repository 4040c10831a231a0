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
from mnemon.whole_files import replacing

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
        with Image.open(path) as image:
            grid = np.asarray(image)
        side = grid.shape[1] // _COLUMNS
        return grid.reshape(-1, side, _COLUMNS, side).transpose(0, 2, 1, 3).reshape(-1, side, side)
    except (OSError, ValueError, IndexError) as error:
        raise UsageError(f"{path} holds no samples of mnemon ({error}): delete it, then resume.") from error


def check(folder: Path) -> None:
    """Refuse samples that cannot be read, before hours are spent on what they are compared with."""
    for path in sorted((folder / FOLDER).glob(f"task-*-{Moment.RIGHT_AFTER.value}.png")):
        read(folder, int(path.name.split("-")[1]) - 1, Moment.RIGHT_AFTER)


def tasks_at_both_moments(folder: Path) -> list[int]:
    """Return the tasks of which there are samples from right after and from the end."""
    found = []
    for path in sorted((folder / FOLDER).glob(f"task-*-{Moment.AT_THE_END.value}.png")):
        task_id = int(path.name.split("-")[1]) - 1
        if path_of(folder, task_id, Moment.RIGHT_AFTER).exists():
            found.append(task_id)
    return sorted(found)


def drift(folder: Path, task_id: int) -> float:
    """Return the mean squared difference of a task's samples, at the end from right after, for values from 0 to 1."""
    one, other = (read(folder, task_id, moment).astype(float) / 255 for moment in Moment)
    return float(np.square(one - other).mean())


def write_sheet(folder: Path) -> None:
    """Put the tasks' first samples side by side: a row per task, right after, then at the end."""
    rows = []
    for task_id in tasks_at_both_moments(folder):
        halves = [_row(read(folder, task_id, moment)[:_SHOWN]) for moment in Moment]
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
        with Image.open(picture) as image:
            image.load()
            return image.width
    except (OSError, SyntaxError):  # what is no picture at all, and what Pillow calls a broken PNG
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
