"""One file that holds all that a learner needs to go on: safetensors, with the facts as JSON in its header.

Written aside and renamed, so that at any moment there is one whole checkpoint or none.
"""

from __future__ import annotations

import json
import os
import zlib
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor

from mnemon.errors import CheckpointError

FILE = "checkpoint.safetensors"
FORMAT = 3


def save(folder: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Replace the folder's checkpoint; if that fails, the earlier one stays."""
    try:
        write(folder / FILE, tensors, {"format": FORMAT, **facts})
    except OSError as error:
        raise CheckpointError(
            f"Could not save the checkpoint in {folder}: {error}. The last good one is kept; "
            "free some space and resume."
        ) from error


def load(folder: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the facts of a folder's checkpoint."""
    path = folder / FILE
    if not path.exists():
        raise CheckpointError(f"There is no checkpoint in {folder} ({FILE} is missing).")
    return read(path, FORMAT)


def write(path: Path, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
    """Write a file aside and rename it; raises OSError if that fails, and then the earlier one is as it was.

    The facts name their format.
    """
    aside = path.with_name(f"{path.name}.new")
    # Clones: safetensors refuses tensors that share memory.
    tensors = {k: v.detach().cpu().contiguous().clone() for k, v in tensors.items()}
    text = json.dumps(facts)
    header = {"mnemon": text, "checksum": str(_checksum(tensors, text))}
    try:
        save_file(tensors, aside, metadata=header)
        with aside.open("rb+") as file:  # Windows syncs only what may be written
            os.fsync(file.fileno())
        os.replace(aside, path)
    except (OSError, SafetensorError) as error:
        aside.unlink(missing_ok=True)
        raise error if isinstance(error, OSError) else OSError(str(error)) from error


def read(path: Path, wanted: int) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Return the tensors and the facts of a file; one of another format, damaged or foreign is named."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {key: file.get_tensor(key) for key in file.keys()}  # noqa: SIM118 (not a dict)
    except (SafetensorError, OSError, ValueError) as error:
        raise CheckpointError(f"{path} is damaged: {error}.") from error
    if "mnemon" not in metadata:
        raise CheckpointError(f"{path} was not written by mnemon: its header holds no facts of a run.")
    try:
        facts = dict(json.loads(metadata["mnemon"]))
    except (ValueError, TypeError) as error:
        raise CheckpointError(f"{path} is damaged: {error}.") from error
    if facts.get("format") != wanted:
        raise CheckpointError(f"{path} has format {facts.get('format')}; this version reads format {wanted}.")
    if metadata.get("checksum") != str(_checksum(tensors, metadata["mnemon"])):
        raise CheckpointError(f"{path} is damaged: its content is not what was saved.")
    return tensors, facts


def as_bytes(value: Any) -> Tensor:
    """Return any JSON value as a tensor of bytes."""
    return torch.tensor(list(json.dumps(value).encode()), dtype=torch.uint8)


def from_bytes(tensor: Tensor) -> Any:
    """Return the JSON value of a tensor of bytes."""
    return json.loads(bytes(tensor.tolist()))


def _checksum(tensors: dict[str, Tensor], text: str) -> int:
    """Return a CRC over facts, names and bytes: safetensors itself notices only a wrong length."""
    crc = zlib.crc32(text.encode())
    for name in sorted(tensors):
        crc = zlib.crc32(tensors[name].flatten().view(torch.uint8).numpy().tobytes(), zlib.crc32(name.encode(), crc))
    return crc


def to_device(tensors: dict[str, Tensor], device: torch.device) -> dict[str, Tensor]:
    """Return the tensors on a device."""
    return {key: tensor.to(device) for key, tensor in tensors.items()}
