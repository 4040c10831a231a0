"""Fetch files of a data set from the first mirror that gives the published content."""

from __future__ import annotations

import tarfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TransferSpeedColumn

from mnemon.benchmarks import files
from mnemon.errors import DataError
from mnemon.whole_files import lent_aside, replacing

if TYPE_CHECKING:
    from mnemon.benchmarks.sources import Archive

TIMEOUT = (10, 60)
"""Seconds to wait for a connection, and for the next bytes."""
SCHEMES = ("https",)
"""How addresses may begin, those too to which a server sends us on."""
LONGEST_NUMBER = 18
"""Digits of a size that a server may name."""
PACKING = 1 << 16
"""Bytes by which a packed file may be larger than its content, beside a tenth of it."""


def download(file: files.DataFile, mirrors: tuple[str, ...], folder: Path) -> Path:
    """Save a file, gzipped, in a folder and return its path; it appears there only whole and verified."""

    def check(path: Path) -> None:
        files.check_md5(files.read(path, file), path, file)

    target = folder / f"{file.name}.gz"
    with _in_cache(target, replacing) as partial:
        fetch_first(mirrors, target.name, partial, check, _most([file]))
    return target


def download_archive(
    archive: Archive, wanted: Sequence[files.DataFile], mirrors: tuple[str, ...], folder: Path
) -> None:
    """Save the wanted files of an archive in a folder; each appears there only whole and verified."""

    def check(path: Path) -> None:
        found = files.digest(path.read_bytes())
        if found != archive.md5:
            raise DataError(f"The content of '{path}' should have md5 {archive.md5} and has {found}.")

    with _in_cache(folder / archive.name, lent_aside) as partial:
        fetch_first(mirrors, archive.name, partial, check, _most(wanted))
        with tarfile.open(partial) as tar:
            for file in wanted:
                # Only what is asked for by name is read, and written under a name of ours.
                member = tar.extractfile(f"{archive.folder}/{file.name}")
                assert member is not None
                with _in_cache(folder / file.name, replacing) as unpacked:
                    unpacked.write_bytes(member.read())
                    files.check_md5(files.read(unpacked, file), unpacked, file)


def _most(wanted: Sequence[files.DataFile]) -> int:
    """Return the bytes that files may have when they are packed."""
    return sum(file.size for file in wanted) * 11 // 10 + PACKING


def fetch_first(mirrors: tuple[str, ...], name: str, path: Path, check: Callable[[Path], None], most: int) -> None:
    """Write what the first mirror gives that passes a check, of at most so many bytes."""
    failures = []
    for mirror in mirrors:
        try:
            fetch(f"{mirror}/{name}", path, most)
            check(path)
        except (OSError, DataError) as error:
            failures.append(f"{urlsplit(mirror).netloc}: {reason(error)}")
        else:
            return
    raise DataError(f"{name} could not be downloaded ({'; '.join(failures)})")


@contextmanager
def _in_cache(target: Path, write: Callable[[Path], AbstractContextManager[Path]]) -> Iterator[Path]:
    """Give a path to write to, as `replacing` or `lent_aside` do; a full disk is an error of the cache folder."""
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        with write(target) as partial:
            yield partial
    except OSError as error:
        why = error.strerror or error
        raise DataError(f"the cache folder '{target.parent}' cannot be written ({why})") from error


class RefusedError(OSError):
    """An address or an answer that is not taken."""


def fetch(url: str, path: Path, most: int) -> None:
    """Write what an address gives to a path, with a progress bar where there is a terminal."""
    import pooch

    check_secure(url)

    def check(response: Any, **_: Any) -> None:  # of every answer, those that send us on included
        check_secure(response.url)
        length = response.headers.get("content-length", "0").strip()
        if not length.isdecimal() or len(length) > LONGEST_NUMBER:
            raise RefusedError("its content-length is not a number")
        if int(length) > most:
            raise RefusedError(f"more than {most:,} bytes")

    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TransferSpeedColumn())
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = DownloadBar(progress, url.rsplit("/", 1)[-1], most)
        get = pooch.HTTPDownloader(progressbar=bar, chunk_size=1 << 16, timeout=TIMEOUT, hooks={"response": check})
        get(url, str(path), None)


def check_secure(url: str) -> None:
    """Refuse an address at which somebody in between could change what comes."""
    if urlsplit(url).scheme not in SCHEMES:
        raise RefusedError(f"{urlsplit(url).scheme or 'no scheme'} is not secure")


class DownloadBar:
    """What pooch asks of a progress bar, drawn by rich; it also sees to it that no more than so many bytes come."""

    def __init__(self, progress: Progress, label: str, most: int) -> None:
        self.progress, self.most, self.n_bytes = progress, most, 0
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
        self.n_bytes += n_bytes
        if self.n_bytes > self.most + n_bytes:  # pooch counts whole pieces
            raise RefusedError(f"more than {self.most:,} bytes")
        self.progress.advance(self.task, n_bytes)

    def reset(self) -> None:
        """Go back to the beginning; pooch does so to fill the bar exactly at the end."""
        self.n_bytes = 0
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
