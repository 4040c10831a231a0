"""Fetch one file of a data set from the first mirror that gives the published content."""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from mnemon.benchmarks import idx
from mnemon.errors import DataError

TIMEOUT = (10, 60)
"""Seconds to wait for a connection, and for the next bytes."""


def download(file: idx.IdxFile, mirrors: tuple[str, ...], folder: Path) -> Path:
    """Save a file, gzipped, in a folder and return its path; it appears there only whole and verified."""
    target = folder / f"{file.name}.gz"
    failures = []
    with side_file(target) as partial:
        for mirror in mirrors:
            try:
                fetch(f"{mirror}/{target.name}", partial)
                idx.check_md5(idx.read(partial, file), partial, file)
            except (OSError, DataError) as error:
                failures.append(f"{urlsplit(mirror).netloc}: {reason(error)}")
            else:
                os.replace(partial, target)
                return target
    raise DataError(f"{target.name} could not be downloaded ({'; '.join(failures)})")


@contextmanager
def side_file(target: Path) -> Iterator[Path]:
    """Lend a name beside the target that no other process has, and leave nothing there."""
    partial = target.with_name(f".{target.name}.{uuid.uuid4().hex}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.touch()
    except OSError as error:
        raise DataError(f"the cache folder '{target.parent}' cannot be written ({error.strerror})") from error
    try:
        yield partial
    finally:
        partial.unlink(missing_ok=True)


def fetch(url: str, path: Path) -> None:
    """Write what an address gives to a path, with a progress bar where there is a terminal."""
    import pooch

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = DownloadBar(progress, url.rsplit("/", 1)[-1])
        get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=TIMEOUT)
        get(url, str(path), None)


class DownloadBar:
    """What pooch asks of a progress bar, drawn by rich."""

    def __init__(self, progress: Progress, label: str) -> None:
        self.progress = progress
        self.task = progress.add_task(label, total=None)

    @property
    def total(self) -> float | None:
        """Bytes to come, once the server has said so."""
        return self.progress.tasks[self.task].total

    @total.setter
    def total(self, total: int) -> None:
        self.progress.update(self.task, total=total or None)

    def update(self, n_bytes: int) -> None:
        """Move on."""
        self.progress.advance(self.task, n_bytes)

    def reset(self) -> None:
        """Go back to the beginning; pooch does so to fill the bar exactly at the end."""
        self.progress.update(self.task, completed=0)

    def close(self) -> None:
        """Do nothing: the bar is taken away with its `Progress`, after an error too."""


def reason(error: Exception) -> str:
    """Say in a few words why a mirror failed."""
    import requests

    if isinstance(error, DataError):
        return "the content is not the published one"
    if isinstance(error, requests.HTTPError) and error.response is not None:
        return f"HTTP status {error.response.status_code}"
    if isinstance(error, requests.Timeout):
        return "no answer in time"
    if isinstance(error, requests.ConnectionError):
        return "no connection"
    return " ".join(str(error).split())
