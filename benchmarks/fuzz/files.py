"""Damage models and checkpoints: each is refused, or is exactly what was saved.

Two kinds of damage: of the bytes, as disks and networks do it, and of the content by somebody who writes a right
digest afterwards. After the second kind a file may load with other content: no checksum can tell it from one that was
meant. Such a model is asked and taught, such a run goes on; that may be refused, too, and ends in no other exception.
"""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

import mnemon
from benchmarks.fuzz.values import changed
from mnemon.errors import UsageError
from mnemon.experiments.compute import Compute
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run import build_learner, build_stream
from mnemon.experiments.run_config import resolve
from mnemon.hypernet import HypernetConfig
from mnemon.training import checkpoint
from mnemon.training.trainer import Stopped, Trainer

MODELS: dict[str, dict[str, Any]] = {
    "everything": {},
    "densities": {"recognise": "density"},
    "adapters": {"adapters": mnemon.LoRA("last", rank=2)},
    "a part": {"generate": ("last.*", "norm.*"), "compression": 20},
    "exact": {"memory": "exact"},
    "exact adapters": {"memory": "exact", "start": "given", "adapters": mnemon.LoRA("last", rank=2)},
    "own hypernetwork": {"hypernet": HypernetConfig(hidden=(6,), embedding_size=4, chunk=20)},
}
METHODS = {
    "hypernet": "split-digits",
    "online-ewc": "split-digits-online-ewc",
    "synaptic-intelligence": "split-digits-synaptic-intelligence",
    "hat": "split-digits-hat",
    "hnet-r": "split-digits-cl3-hnet-r",
    "hnet-tir": "split-digits-cl3-hnet-tir",
    "sgd": "split-digits",
}
SMALL = ("steps=4", "n_tasks=2", "target.hidden=[6]")
OWN = {"sgd": ("optimizer.name=sgd", "optimizer.momentum=0.9")}


class Net(nn.Module):
    """A small network with batch norm."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.norm, self.last = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, x: Tensor) -> Tensor:
        """Return two outputs."""
        return self.last(self.norm(self.first(x)).relu())


def net() -> nn.Module:
    """Return the same network every time."""
    torch.manual_seed(1)
    return Net()


Read = Callable[[Path], tuple[dict[str, bytes], Callable[[], object]]]
"""Loads a file from a path; returns all that it holds, and what is done with it."""


@dataclass(frozen=True)
class Kept:
    """A file as it was saved."""

    content: bytes
    read: Read
    wanted: dict[str, bytes]


def prepare(folder: Path) -> tuple[list[Kept], Path]:
    """Make models of all kinds and checkpoints of several methods."""
    kept = [_model(folder, settings) for settings in MODELS.values()]
    kept += [_checkpoint(folder / name, name) for name in METHODS]
    path = folder / "damaged.mnemon"
    for one in kept:  # by the very way that damaged ones take
        path.write_bytes(one.content)
        found, use = one.read(path)
        assert found == one.wanted
        use()
    return kept, path


def _model(folder: Path, settings: dict[str, Any]) -> Kept:
    model = mnemon.ContinualModel(net(), **settings)
    inputs = torch.rand(40, 4, generator=torch.Generator().manual_seed(0))
    for i, task in enumerate(("one", "two")):
        model.learn((inputs, (inputs[:, i] > 0.5).long()), task=task, steps=3, quiet=True)
    path = model.save(folder / "model")

    def read(damaged: Path) -> tuple[dict[str, bytes], Callable[[], object]]:
        loaded = mnemon.load(damaged, net())
        facts = repr((loaded.state.settings, loaded.state.tasks, loaded.state.n_learned, loaded.state.n_inputs))
        found = {**_bytes(loaded.state.learner.tensors()), "": facts.encode()}
        return found, lambda: _use_model(loaded, inputs, folder / "again")

    return Kept(path.read_bytes(), read, read(path)[0])


def _use_model(model: mnemon.ContinualModel, inputs: Tensor, again: Path) -> None:
    """Do with a model what people do; each of it may be refused."""
    labels = (inputs[:, 2] > 0.5).long()
    for verb in (
        lambda: [str(model), *map(model.predict, [inputs] * 2, model.tasks), *map(model.network, model.tasks)],
        lambda: model.predict(inputs),
        lambda: model.learn((inputs, labels), "new", steps=2, quiet=True),
        lambda: [model.relearn((inputs, labels), task, steps=1, quiet=True) for task in model.tasks[:1]],
        lambda: mnemon.load(model.save(again), net()),
    ):
        with contextlib.suppress(UsageError):
            verb()


def _checkpoint(folder: Path, name: str) -> Kept:
    folder.mkdir()
    config = resolve(load_preset(METHODS[name]), [*SMALL, *OWN.get(name, ())])
    compute = Compute("cpu")
    stream = build_stream(config, 0, compute)

    def trainer(home: Path, **options: Any) -> Trainer:
        learner = build_learner(config, stream, 0)
        return Trainer(learner, stream, config.training, 0, home, config.plain(), **options)

    steps = iter(range(100))
    with contextlib.suppress(Stopped):
        trainer(folder, should_stop=lambda: next(steps) == 5).run()
    path = folder / checkpoint.FILE

    def read(damaged: Path) -> tuple[dict[str, bytes], Callable[[], object]]:
        damaged.replace(folder / checkpoint.FILE)
        steps = iter(range(100))
        found = trainer(folder, should_stop=lambda: next(steps) == 1)
        found.resume()
        p = found.progress
        facts = repr((p.task_id, p.step, p.matrix, p.inferred, p.untrained, p.losses, p.peaks))
        return {**_bytes(found.learner.tensors()), "": facts.encode()}, lambda: _go_on(found)

    content = path.read_bytes()
    copy = folder / "copy"
    copy.write_bytes(content)
    return Kept(content, read, read(copy)[0])


def _go_on(trainer: Trainer) -> None:
    """Take some steps; that may be refused."""
    with contextlib.suppress(Stopped, UsageError):
        trainer.run()


def _bytes(tensors: dict[str, Tensor]) -> dict[str, bytes]:
    return {name: f"{t.dtype} {t.shape}".encode() + t.detach().numpy().tobytes() for name, t in tensors.items()}


def case(prepared: tuple[list[Kept], Path], number: int) -> str:
    """Damage a file, load it, and see what comes of it."""
    kept, path = prepared
    draw = random.Random(number)
    one = draw.choice(kept)
    crafted = draw.random() < 0.5
    content = rewritten(one.content, draw) if crafted else damaged(one.content, draw)
    path.write_bytes(content)
    if crafted:
        _set_digest(path)
    if content == one.content:
        return "as it was"
    try:
        found, use = one.read(path)
    except UsageError:
        return "refused"
    if found == one.wanted:
        return "the same"
    assert crafted, f"a damaged file of {len(content)} bytes loads and is another one"
    use()
    same_tensors = {**found, "": b""} == {**one.wanted, "": b""}
    return f"other {'facts' if same_tensors else 'tensors'}, with a right digest"


# Damage of bytes


def damaged(content: bytes, draw: random.Random) -> bytes:
    """Return bytes with some damage."""
    data, n = bytearray(content), len(content)
    header = 8 + int.from_bytes(content[:8], "little")
    kind = draw.randrange(9)
    at = draw.randrange(draw.choice((header, n)))
    if kind == 0:
        data[at] ^= 1 << draw.randrange(8)
    elif kind == 1:
        length = draw.randint(1, 16)
        data[at : at + length] = draw.randbytes(length)
    elif kind == 2:
        del data[at:]
    elif kind == 3:
        data += draw.randbytes(draw.randint(1, 100))
    elif kind == 4:
        del data[at : at + draw.randint(1, 200)]
    elif kind == 5:
        data[at:at] = data[at : at + draw.randint(1, 200)]
    elif kind == 6:
        data[:8] = draw.choice((draw.randrange(2 * n), draw.randrange(2**64))).to_bytes(8, "little")
    elif kind == 7:
        data = bytearray(_with_other_word(bytes(data), draw))
    else:
        data[at : at + 1] = bytes([draw.choice(b'{}[]",:0123456789')])
    return bytes(data)


WORDS = (
    (b'"F32"', b'"I32"'), (b'"F32"', b'"F16"'), (b'"I64"', b'"F64"'), (b'"U8"', b'"I8"'), (b"[33", b"[11"),
    (b"learner/", b"lerner/"), (b"[0,", b"[4,"), (b'"digest"', b'"digset"'), (b'\\"format\\": 4', b'\\"format\\": 3'),
    (b'\\"format\\": 3', b'\\"format\\": 2'), (b"shape", b"shope"), (b"embeddings.0", b"embeddings.1"),
)  # fmt: skip


def _with_other_word(data: bytes, draw: random.Random) -> bytes:
    before, after = draw.choice(WORDS)
    return data.replace(before, after, draw.choice((1, -1)))


# Damage of content, with a right digest


def rewritten(content: bytes, draw: random.Random) -> bytes:
    """Return a file with other facts or other tensors, whose header is well formed."""
    length = int.from_bytes(content[:8], "little")
    header, data = json.loads(content[8 : 8 + length]), content[8 + length :]
    metadata = header.pop("__metadata__")
    kind = draw.randrange(4)
    if kind == 0:
        metadata["mnemon"] = json.dumps(changed(json.loads(metadata["mnemon"]), draw))
    elif kind == 1:
        name = draw.choice(list(header))
        header[name] = {**header[name], "dtype": draw.choice(("F64", "I32", "F16", "BF16", "I64", "U8", "BOOL"))}
    elif kind == 2:
        name, other = draw.choice(list(header)), draw.choice(list(header))
        if draw.random() < 0.5:
            header[name], header[other] = header[other], header[name]
        else:
            header[f"{other}{draw.choice(('', '/0/x', 'x'))}"] = header.pop(name)
    else:
        header, data = _with_other_shape(header, data, draw)
    metadata[checkpoint.DIGEST] = "0" * 64
    text = json.dumps({"__metadata__": metadata, **header}, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    return len(text).to_bytes(8, "little") + text + data


def _with_other_shape(header: dict[str, Any], data: bytes, draw: random.Random) -> tuple[dict[str, Any], bytes]:
    """Give a tensor another shape, with as many bytes as that needs: all offsets behind it move."""
    name = draw.choice(list(header))
    entry = header[name]
    start, stop = entry["data_offsets"]
    count = 1
    for size in entry["shape"]:
        count *= size
    width = (stop - start) // count if count else 4
    shape = draw.choice(([], [1], [0], [count], [1, count], [count + 1], [*entry["shape"], 1], [2 * count]))
    new = 1
    for size in shape:
        new *= size
    piece = (data[start:stop] * 3)[: new * width].ljust(new * width, b"\0")
    moved = start + len(piece) - stop
    found = {}
    for other, facts in header.items():
        a, b = facts["data_offsets"]
        shift = moved if a >= stop and other != name else 0
        found[other] = {**facts, "data_offsets": [a + shift, b + shift]}
    found[name] = {**entry, "shape": shape, "data_offsets": [start, start + len(piece)]}
    return found, data[:start] + piece + data[stop:]


def _set_digest(path: Path) -> None:
    checkpoint._put_digest(path)
