"""A file with all that a learner needs to resume: safetensors, with other facts as JSON in its header.

The header also holds a digest of the whole file. A file that differs in one byte from what was saved is refused.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mnemon.errors import CheckpointError
from mnemon.notation import NotationError, read_json
from mnemon.whole_files import check_regular, is_file, replacing

FILE = "checkpoint.safetensors"
FORMAT = 4
EARLIER = (3,)
"""Formats of earlier versions that can be read; they have a checksum of names and bytes, but no digest."""
DIGEST = "digest"
PACKED = "packed facts"
"""Name of a tensor that holds the facts, compressed, if the header does not."""
MOST_FACTS = 1 << 28
"""Maximum bytes of unpacked facts."""
_BLANK = "0" * 64
"""The placeholder for the digest in the bytes from which it is computed."""
_BLOCK = 1 << 22


def save(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the folder's checkpoint; if that fails, the earlier one stays."""
    try:
        write(folder / FILE, tensors, {"format": FORMAT, **facts})
    except OSError as error:
        kept = " The last good one is kept." if is_file(folder / FILE) else ""
        raise CheckpointError(
            f"Could not save the checkpoint in {folder}: {error.strerror or error}.{kept} "
            "Free some space or make the folder writable, then resume."
        ) from error


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the facts of a folder's checkpoint."""
    path = folder / FILE
    if not path.exists():
        raise CheckpointError(f"There is no checkpoint in {folder} ({FILE} is missing).")
    return read(path, (FORMAT, *EARLIER))


def write(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any], packed: bool = False) -> None:
    """Write a file whole or not at all; raises OSError if that fails, and then the earlier one is as it was.

    The facts name their format. Packed they take less room, and cannot be read without us.
    """
    if packed:
        code = zlib.compress(json.dumps(facts, separators=(",", ":")).encode(), 9)
        tensors = {**tensors, PACKED: torch.frombuffer(bytearray(code), dtype=torch.uint8)}
        facts = {"format": facts["format"]}
    # Clones: safetensors refuses tensors that share memory.
    tensors = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    try:
        with replacing(path, durable=True) as aside:
            save_file(tensors, aside, metadata={"mnemon": json.dumps(facts), DIGEST: _BLANK})
            _put_digest(aside)
    except SafetensorError as error:
        raise OSError(str(error)) from error


def read(path: Path, formats: tuple[int, ...]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the facts of a file; refuse another format, a damaged file, or another kind of file."""
    try:
        check_regular(path)
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            _check_origin(path, metadata)
            facts = _facts(path, metadata["mnemon"], formats)
            if DIGEST in metadata:
                _check_digest(path, metadata[DIGEST])
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
            if PACKED in tensors:
                facts = _facts(path, _unpack(tensors.pop(PACKED)), formats)
    except (SafetensorError, OSError, ValueError, OverflowError, zlib.error) as error:
        raise CheckpointError(f"{path} is damaged: {error}.") from error
    if DIGEST not in metadata:
        _check_as_before(path, metadata, tensors, facts["format"] == max(formats))
    return tensors, facts


def _unpack(code: Tensor) -> str:
    """Return facts that were compressed, if they are not too large."""
    unpacking = zlib.decompressobj()
    facts = unpacking.decompress(code.flatten().view(torch.uint8).numpy().tobytes(), MOST_FACTS)
    if not unpacking.eof:
        raise ValueError("its facts are truncated, or too large")
    return facts.decode()


def _check_origin(path: Path, metadata: Mapping[str, str]) -> None:
    if "mnemon" not in metadata:
        raise CheckpointError(f"{path} was not written by mnemon: its header is not that of a run.")


def _facts(path: Path, text: str, formats: tuple[int, ...]) -> dict[str, Any]:
    try:
        facts = read_json(text)
    except NotationError as error:
        raise CheckpointError(f"{path} is damaged: {error}.") from error
    if not isinstance(facts, dict):
        raise CheckpointError(f"{path} is damaged: its header is not that of a run.")
    found = facts.get("format")
    if type(found) is not int or found not in formats:
        raise CheckpointError(f"{path} has format {found}; this version reads format {max(formats)}.")
    return facts


# The digest: of all bytes of the file, with zeros where it stands itself


def _put_digest(path: Path) -> None:
    offset = _offset(path, _BLANK)
    digest = _digest(path, offset)
    with path.open("rb+") as file:
        file.seek(offset)
        file.write(digest.encode())


def _check_digest(path: Path, digest: str) -> None:
    if len(digest) != len(_BLANK) or _digest(path, _offset(path, digest)) != digest:
        raise CheckpointError(f"{path} is damaged: its content has changed since it was saved.")


def _offset(path: Path, digest: str) -> int:
    """Return where the digest stands in a file: behind its name in the header; -1 if it does not."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        found = file.read(length).find(f'"{DIGEST}":"{digest}"'.encode())
    return 8 + found + len(f'"{DIGEST}":"') if found >= 0 else -1


def _digest(path: Path, offset: int) -> str:
    """Return the SHA-256 of a file with zeros at an offset."""
    if offset < 0:
        return ""
    found = hashlib.sha256()
    with path.open("rb") as file:
        found.update(file.read(offset))
        found.update(_BLANK.encode())
        file.seek(len(_BLANK), 1)
        while block := file.read(_BLOCK):
            found.update(block)
    return found.hexdigest()


def _check_as_before(path: Path, metadata: Mapping[str, str], tensors: dict[str, Tensor], newest: bool) -> None:
    """Check the weaker checksum of earlier versions."""
    crc = zlib.crc32(metadata["mnemon"].encode())
    for name in sorted(tensors):
        crc = zlib.crc32(tensors[name].flatten().view(torch.uint8).numpy().tobytes(), zlib.crc32(name.encode(), crc))
    if newest or metadata.get("checksum") != str(crc):
        raise CheckpointError(f"{path} is damaged: its content has changed since it was saved.")


# Values beside the facts


def as_bytes(value: Any) -> Tensor:
    """Return any JSON value as a tensor of bytes."""
    return torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)


def from_bytes(tensor: Tensor) -> Any:
    """Return the JSON value of a tensor of bytes; raises NotationError."""
    if tensor.dtype != torch.uint8 or tensor.ndim != 1:
        raise NotationError(f"{tensor.dtype} of shape {list(tensor.shape)} is not text")
    return read_json(tensor.numpy(force=True).tobytes())


def to_device(tensors: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the tensors on a device; one without float64 leaves those where they are."""
    stays = torch.float64 if device.type == "mps" else None
    return {key: tensor if tensor.dtype == stays else tensor.to(device) for key, tensor in tensors.items()}
