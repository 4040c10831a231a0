"""A file is replaced whole or not at all, by any number of processes, and nothing is left beside it."""

from __future__ import annotations

import errno
import multiprocessing
import os
import stat
import time
from pathlib import Path

import pytest

from mnemon import whole_files
from mnemon.errors import UsageError
from mnemon.whole_files import check_regular, read_text, remove_leftovers, replacing, write_text

PROCESSES, WRITES = 3, 40


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_a_new_file_has_the_rights_that_the_umask_gives(tmp_path, umask):
    before = os.umask(umask)
    try:
        with replacing(tmp_path / "file") as aside:
            aside.unlink()
            aside.touch(mode=0o600)  # as a library that writes a file of its own and renames it
        assert stat.S_IMODE((tmp_path / "file").stat().st_mode) == 0o666 & ~umask
    finally:
        os.umask(before)


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), KeyboardInterrupt(), ValueError()]
)
def test_what_fails_leaves_the_earlier_file_and_nothing_beside_it(tmp_path, error):
    path = tmp_path / "file"
    write_text(path, "earlier")
    with pytest.raises(type(error)), replacing(path) as aside:  # noqa: PT012
        aside.write_text("half")
        raise error
    assert path.read_text() == "earlier"
    assert list(tmp_path.iterdir()) == [path]


def test_a_text_that_cannot_be_written_is_said(tmp_path):
    path = tmp_path / "missing" / "file"
    with pytest.raises(UsageError) as error:
        write_text(path, "text")
    assert str(error.value) == f"Could not write {path}: No such file or directory."


def _write(path: Path, text: str) -> None:
    for _ in range(WRITES):
        write_text(path, text)


def test_processes_that_write_one_path_do_not_disturb_each_other(tmp_path):
    path, texts = tmp_path / "file", [letter * 10_000 for letter in "abc"]
    start = multiprocessing.get_context("spawn")
    writers = [start.Process(target=_write, args=(path, text)) for text in texts]
    for writer in writers:
        writer.start()
    while any(writer.is_alive() for writer in writers):
        assert not path.exists() or path.read_text() in texts
    for writer in writers:
        writer.join()
    assert [writer.exitcode for writer in writers] == [0] * len(writers)
    assert path.read_text() in texts
    assert list(tmp_path.iterdir()) == [path]


def _die_within(path: Path) -> None:
    with replacing(path) as aside:
        aside.write_text("half")
        os._exit(9)


def test_what_a_killed_process_left_is_removed_by_the_next_one_that_writes_there(tmp_path):
    path = tmp_path / "file[1].txt"
    process = multiprocessing.get_context("spawn").Process(target=_die_within, args=(path,))
    process.start()
    process.join()
    assert len(list(tmp_path.iterdir())) == 1
    write_text(path, "text")
    assert list(tmp_path.iterdir()) == [path]


def test_without_locks_only_what_is_old_is_taken_for_a_leftover(tmp_path, monkeypatch):
    monkeypatch.setattr(whole_files, "fcntl", None)
    new, old = (tmp_path / f".file.{name}{whole_files.SUFFIX}" for name in ("new", "old"))
    for folder in (new, old):
        folder.mkdir()
    os.utime(old, (time.time() - 2 * whole_files.LONG_AGO,) * 2)
    write_text(tmp_path / "file", "text")
    assert sorted(tmp_path.iterdir()) == [new, tmp_path / "file"]


def test_what_another_process_is_writing_is_not_taken_for_a_leftover(tmp_path):
    path = tmp_path / "file"
    with replacing(path) as aside:
        aside.write_text("mine")
        remove_leftovers(tmp_path, path.name)
        assert aside.exists()
    assert path.read_text() == "mine"


def test_who_holds_a_folder_removes_all_leftovers_at_once(tmp_path):
    for name in (".checkpoint.safetensors.abc123.new", ".record.json.x.new"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "file").write_text("half")
    for name in (".tmpAb12Cd", "record.json.new", "kept"):  # the first two: of earlier versions
        (tmp_path / name).write_text("")
    remove_leftovers(tmp_path, at_once=True)
    assert [path.name for path in tmp_path.iterdir()] == ["kept"]


def test_folders_and_pipes_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is not a regular file"):
        read_text(tmp_path / "pipe")
    with pytest.raises(OSError, match="it is a folder, not a file"):
        check_regular(tmp_path)


def test_what_is_no_regular_file_is_not_replaced(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(UsageError, match="pipe: it is not a regular file"):
        write_text(tmp_path / "pipe", "text")
    assert (tmp_path / "pipe").is_fifo()
