"""Samples are kept as pictures and read again; how far they drift is measured on them."""

from __future__ import annotations

import errno
import os
import re

import numpy as np
import pytest
from PIL import Image

from mnemon.errors import UsageError
from mnemon.results import samples
from mnemon.results.samples import Moment

RIGHT_AFTER, AT_THE_END = Moment


def images(seed: int, n: int = 16, side: int = 3) -> np.ndarray:
    """Images [n, pixels] whose values a byte can hold."""
    return np.random.default_rng(seed).integers(0, 256, (n, side * side)) / 255


def as_bytes(values: np.ndarray, side: int = 3) -> np.ndarray:
    return (values * 255).round().astype(np.uint8).reshape(-1, side, side)


@pytest.mark.parametrize("n", [8, 16, 64])
def test_what_was_written_is_read(tmp_path, n):
    samples.write(tmp_path, 4, RIGHT_AFTER, images(1, n))
    assert [path.name for path in (tmp_path / "samples").iterdir()] == ["task-05-right-after.png"]
    assert np.array_equal(samples.read(tmp_path, 4, RIGHT_AFTER), as_bytes(images(1, n)))


def test_a_row_that_is_not_full_is_filled_with_black(tmp_path):
    samples.write(tmp_path, 0, RIGHT_AFTER, images(1, 5))
    found = samples.read(tmp_path, 0, RIGHT_AFTER)
    assert np.array_equal(found[:5], as_bytes(images(1, 5)))
    assert found.shape == (8, 3, 3)
    assert not found[5:].any()


def test_values_outside_are_cut_to_0_and_1(tmp_path):
    samples.write(tmp_path, 0, RIGHT_AFTER, np.tile([-3.0, 0.5, 1.0, 7.0], (8, 1)))
    assert samples.read(tmp_path, 0, RIGHT_AFTER)[0].flatten().tolist() == [0, 128, 255, 255]


def test_images_that_are_not_square_are_left_out(tmp_path):
    samples.write(tmp_path, 0, RIGHT_AFTER, np.zeros((8, 10)))
    assert list(tmp_path.iterdir()) == []


def test_drift_is_the_mean_squared_difference(tmp_path):
    samples.write(tmp_path, 0, RIGHT_AFTER, images(1))
    samples.write(tmp_path, 0, AT_THE_END, images(2))
    assert samples.drift(tmp_path, 0) == pytest.approx(((images(1) - images(2)) ** 2).mean())
    samples.write(tmp_path, 0, AT_THE_END, images(1))
    assert samples.drift(tmp_path, 0) == 0


def test_only_tasks_of_both_moments_are_compared(tmp_path):
    assert samples.tasks_at_both_moments(tmp_path) == []
    for task, moments in {0: Moment, 1: [RIGHT_AFTER], 2: [AT_THE_END], 9: Moment, 99: Moment}.items():
        for moment in moments:
            samples.write(tmp_path, task, moment, images(task))
    assert samples.tasks_at_both_moments(tmp_path) == [0, 9, 99]


def test_the_sheet_has_a_row_per_task_right_after_and_at_the_end(tmp_path):
    for task in (0, 1):
        samples.write(tmp_path, task, RIGHT_AFTER, images(task))
        samples.write(tmp_path, task, AT_THE_END, images(task + 10))
    samples.write_sheet(tmp_path)
    with Image.open(tmp_path / "samples" / "sheet.png") as image:
        sheet = np.asarray(image)
    # Images of 3 pixels are enlarged to 30, with a line of 2 behind each and 10 between the moments.
    assert sheet.shape == (2 * 32, 10 * 32 + 8 + 10 * 32)
    for task in (0, 1):
        row = sheet[32 * task : 32 * task + 32]
        for i in range(10):
            one, other = (row[:30, 32 * i + start : 32 * i + start + 30][5::10, 5::10] for start in (0, 328))
            assert np.array_equal(one, as_bytes(images(task))[i])
            assert np.array_equal(other, as_bytes(images(task + 10))[i])
        assert (row[:, 318:328] == 255).all()
        assert (row[30:] == 255).all()


def test_images_that_are_large_enough_are_shown_as_they_are(tmp_path):
    for moment in Moment:
        samples.write(tmp_path, 0, moment, images(1, side=28))
    samples.write_sheet(tmp_path)
    sheet = tmp_path / "samples" / "sheet.png"
    assert samples.width_of(sheet) == 2 * 10 * (28 + 2) + 8


@pytest.mark.parametrize("content", [None, b"", b"junk", b"\x89PNG\r\n\x1a\n", "half"])
def test_a_picture_that_cannot_be_read_has_no_width(tmp_path, content):
    path = tmp_path / "sheet.png"
    if content == "half":
        Image.fromarray(np.random.default_rng(0).integers(0, 256, (90, 90), np.uint8)).save(path)
        content = path.read_bytes()[:2000]
    if content is not None:
        path.write_bytes(content)
    assert samples.width_of(path) == 0


def test_damaged_samples_are_named_when_they_are_checked(tmp_path):
    samples.write(tmp_path, 0, RIGHT_AFTER, images(1))
    samples.write(tmp_path, 1, RIGHT_AFTER, images(1))
    samples.check(tmp_path)
    path = samples.path_of(tmp_path, 1, RIGHT_AFTER)
    path.write_bytes(b"junk")
    with pytest.raises(
        UsageError, match=f"^{re.escape(str(path))} holds no samples of mnemon .*: delete it, then resume"
    ):
        samples.check(tmp_path)


def test_without_samples_there_is_nothing_to_check(tmp_path):
    samples.check(tmp_path)


def test_without_samples_there_is_no_sheet(tmp_path):
    samples.write_sheet(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_a_full_disk_leaves_the_earlier_samples(tmp_path, monkeypatch):
    samples.write(tmp_path, 0, RIGHT_AFTER, images(1))
    path = samples.path_of(tmp_path, 0, RIGHT_AFTER)

    def full(*_, **__):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(Image.Image, "save", full)
    with pytest.raises(UsageError, match=re.escape(f"Could not write {path}: [Errno 28] No space left on device.")):
        samples.write(tmp_path, 0, RIGHT_AFTER, images(2))
    assert np.array_equal(samples.read(tmp_path, 0, RIGHT_AFTER), as_bytes(images(1)))
    assert [p.name for p in path.parent.iterdir()] == [path.name]
