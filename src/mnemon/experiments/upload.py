"""Where results go in the end: a folder of this machine, or a URL that all machines can reach."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from mnemon import extras
from mnemon.errors import UsageError, reason_of


def is_url(out: str | Path | None) -> bool:
    """Tell whether `--out` is a URL."""
    return isinstance(out, str) and "://" in out


class Upload:
    """What `--out` says: a folder, nothing, or a URL to which the folder is copied when all is done."""

    def __init__(self, out: str | None):
        self.url = out if is_url(out) else None
        self.folder = Path(out) if out is not None and not is_url(out) else None
        """The folder to work in, if one is named."""
        if self.url is not None:
            self._check(self.url)

    def _check(self, url: str) -> None:
        """Refuse a place that cannot be reached or is taken, before anything is computed."""
        extras.require("ray", "A URL for --out needs", "fsspec")
        try:
            files, path = _open(url)
            taken = files.exists(path)
        except Exception as error:  # every file system has errors of its own
            raise UsageError(f"--out {url} cannot be reached: {reason_of(error)}.") from error
        if taken:
            raise UsageError(f"{url} exists already and is not changed. Choose another --out.")

    def send(self, folder: Path, say: Callable[[str], None]) -> None:
        """Copy a folder to the URL, if there is one."""
        if self.url is None:
            return
        try:
            files, path = _open(self.url)
            for file in sorted(found for found in folder.rglob("*") if found.is_file()):
                target = f"{path.rstrip('/')}/{file.relative_to(folder).as_posix()}"
                files.makedirs(target.rpartition("/")[0], exist_ok=True)
                files.put_file(str(file), target)
        except Exception as error:
            raise UsageError(
                f"Could not copy {folder} to {self.url}: {reason_of(error)}. The copy here is complete."
            ) from error
        say(f"Copied to {self.url}")


def _open(url: str) -> tuple[Any, str]:
    from fsspec.core import url_to_fs

    files, path = url_to_fs(url)
    return files, str(path)
