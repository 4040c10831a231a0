"""Files that are there whole or not at all: written aside, then renamed."""

from __future__ import annotations

import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from mnemon.errors import UsageError

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

SUFFIX = ".new"
"""Of the folder aside in which a file is written; its name begins with a dot and that of the file."""
MOST_OF_NAME = 100
"""Characters of the file's name that the folder's name repeats: file systems have limits."""
LONG_AGO = 3600.0
"""Seconds after which a folder aside is taken for a leftover where there are no locks to tell."""


@contextmanager
def replacing(path: Path, durable: bool = False) -> Iterator[Path]:
    """Lend a path aside; what is written there replaces `path` when nothing has failed.

    Raises OSError if it fails, and then `path` is as it was. Several processes may replace one path at once: one of
    them is the last. The new file has the rights that the umask gives. `durable`: on the disk before it is renamed.
    """
    if path.exists():
        check_regular(path)  # a device such as /dev/null would be replaced by a file
    with lent_aside(path) as aside:
        aside.touch()
        rights = stat.S_IMODE(aside.stat().st_mode)
        yield aside
        os.chmod(aside, rights)  # a library may have replaced the file by one with rights of its own
        if durable:
            with aside.open("rb+") as file:  # Windows syncs only what may be written
                os.fsync(file.fileno())
        os.replace(aside, path)


@contextmanager
def lent_aside(path: Path) -> Iterator[Path]:
    """Lend a path aside for what may become `path`, and leave nothing there, nor leftovers of killed processes."""
    remove_leftovers(path.parent, path.name)
    folder, handle = _folder_aside(path)
    try:
        yield folder / path.name
    finally:
        shutil.rmtree(folder, ignore_errors=True)
        if handle is not None:
            os.close(handle)


def write_text(path: Path, text: str) -> None:
    """Write a text file, whole or not at all."""
    try:
        with replacing(path) as aside:
            aside.write_text(text, encoding="utf-8")
    except OSError as error:
        raise UsageError(f"Could not write {path}: {error.strerror or error}.") from error


def remove_leftovers(folder: Path, name: str = "", at_once: bool = False) -> None:
    """Remove what killed processes have left aside, of one file or of all.

    `at_once`: the caller holds the folder, so nobody else is writing there.
    """
    for left in folder.glob(f"{_prefix(name)}*{SUFFIX}"):
        with suppress(OSError):  # another process was quicker
            if at_once:
                shutil.rmtree(left, ignore_errors=True)
            else:
                _remove_abandoned(left)
    for left in _of_earlier_versions(folder) if at_once else ():
        with suppress(OSError):
            left.unlink()


def _of_earlier_versions(folder: Path) -> Iterator[Path]:
    """Give the files that earlier versions, killed while they wrote, have left beside the others."""
    for left in (*folder.glob(f"*{SUFFIX}"), *folder.glob(".tmp??????")):
        if left.is_file() and not left.is_symlink():
            yield left


def _prefix(name: str) -> str:
    # No characters that mean something in a pattern: the name is looked for by one.
    return f".{''.join('_' if c in '*?[]' else c for c in name[:MOST_OF_NAME])}." if name else "."


def _folder_aside(path: Path) -> tuple[Path, int | None]:
    """Make a folder aside, locked as long as this process lives; return it and the handle of the lock.

    Until it is locked another process may take it for a leftover and remove it; then another one is made.
    """
    while True:
        folder = Path(tempfile.mkdtemp(dir=path.parent, prefix=_prefix(path.name), suffix=SUFFIX))
        handle = None
        try:
            handle = _lock(folder, wait=True)
        except FileNotFoundError:
            continue
        except OSError:  # a file system without locks
            return folder, None
        if handle is None or folder.exists():
            return folder, handle
        os.close(handle)


def _lock(folder: Path, wait: bool) -> int | None:
    """Lock a folder and return the handle that holds the lock; None where the system has no locks."""
    if fcntl is None:
        return None
    handle = os.open(folder, os.O_RDONLY)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
    except OSError:
        os.close(handle)
        raise
    return handle


def _remove_abandoned(folder: Path) -> None:
    """Remove a folder aside if nobody is writing in it any more; without locks, if it is old."""
    handle = None
    try:
        handle = _lock(folder, wait=False)
    except BlockingIOError:
        return
    except OSError:  # a file system without locks
        pass
    try:
        if handle is not None or time.time() - folder.stat().st_mtime > LONG_AGO:
            shutil.rmtree(folder, ignore_errors=True)
    finally:
        if handle is not None:
            os.close(handle)


def is_there(path: Path) -> bool:
    """Say whether there is a file or folder; one that cannot be looked at is not there."""
    try:
        return path.exists()
    except OSError:  # a name that is too long, or a folder without the right to look into it
        return False


def is_file(path: Path) -> bool:
    """Say whether there is a file with content: no folder, pipe or device."""
    return is_there(path) and path.is_file()


def check_regular(path: Path) -> None:
    """Refuse what is no file with content, such as a folder or a pipe, which would hang; raises OSError."""
    mode = path.stat().st_mode
    if stat.S_ISDIR(mode):
        raise IsADirectoryError("it is a folder, not a file")
    if not stat.S_ISREG(mode):
        raise OSError("it is not a regular file")


def read_text(path: Path) -> str:
    """Return the text of a file; raises OSError or UnicodeDecodeError."""
    check_regular(path)
    return path.read_text(encoding="utf-8")
