"""Files of data sets: read, gzipped or not, and checked against their published content."""

from __future__ import annotations

import gzip
import hashlib
import zlib
from pathlib import Path
from typing import BinaryIO, Protocol

from mnemon.errors import DataError

GZIP_MAGIC = b"\x1f\x8b"
REMEDY = "Put a good copy in its place, or delete it to have it downloaded."


class DataFile(Protocol):
    """What a file must hold."""

    @property
    def name(self) -> str:
        """Without the ending .gz."""

    @property
    def md5(self) -> str:
        """Of the decompressed content: mirrors and packages differ in their gzip headers."""

    @property
    def header(self) -> bytes:
        """How the content begins."""

    @property
    def size(self) -> int:
        """Bytes of the decompressed content."""


def digest(content: bytes | bytearray) -> str:
    """Return the md5 of a content, which names it; this is no protection against malice."""
    return hashlib.md5(content, usedforsecurity=False).hexdigest()


def read(path: Path, file: DataFile) -> bytearray:
    """Return the decompressed content after checking its size and header; `check_md5` does the rest."""
    content = decompress(path, file)
    if len(content) != file.size:
        found = f"more than {file.size:,}" if len(content) > file.size else f"{len(content):,}"
        raise DataError(f"'{path}' should hold {file.size:,} bytes and holds {found}. {REMEDY}")
    if not content.startswith(file.header):
        wanted, found = file.header.hex(), content[: len(file.header)].hex()
        raise DataError(f"'{path}' should begin with {wanted} (IDX) and begins with {found}. {REMEDY}")
    return content


def check_md5(content: bytearray, path: Path, file: DataFile) -> None:
    """Refuse a content that is not the published one."""
    found = digest(content)
    if found != file.md5:
        raise DataError(f"The content of '{path}' should have md5 {file.md5} and has {found}. {REMEDY}")


def decompress(path: Path, file: DataFile) -> bytearray:
    """Return a file's bytes, at most one more than expected; gzip is told by the content, not by the name."""
    content = bytearray()
    try:
        with open(path, "rb") as raw:
            zipped = raw.read(len(GZIP_MAGIC)) == GZIP_MAGIC
            raw.seek(0)
            if not zipped:
                fill(content, raw, file.size + 1)
                return content
            with gzip.open(raw, "rb") as stream:
                fill(content, stream, file.size + 1)
                return content
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        unpacked = f"{len(content):,} of {file.size:,} bytes could be decompressed"
        raise DataError(f"'{path}' is damaged or truncated: {unpacked}. {REMEDY}") from error
    except OSError as error:
        reason = error.strerror or error
        raise DataError(f"'{path}' cannot be read: {reason}. Put a readable copy in its place.") from error


def fill(content: bytearray, stream: BinaryIO | gzip.GzipFile, limit: int) -> None:
    """Append to the content piece by piece, so that what came before an error is counted."""
    while len(content) < limit and (piece := stream.read(min(1 << 20, limit - len(content)))):
        content += piece
