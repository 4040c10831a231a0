"""Damage records: shown, listed, reported or resumed, each is refused in one line or taken for what it says."""

from __future__ import annotations

import contextlib
import io
import json
import os
import random
import re
import shutil
from pathlib import Path

from benchmarks.fuzz.values import STRANGE, changed
from mnemon.cli import main
from mnemon.notation import NotationError, read_toml, write_toml

FILES = ("record.json", "losses.jsonl", "config.toml", "compare.json", "sweep.json", "trials.csv", "*.json")
SMALL = tuple(
    word
    for setting in ("steps=4", "n_tasks=2", "target.hidden=[4]", "log_every=1")
    for word in ("--set", setting)
)  # fmt: skip
PIECES = (
    b"[" * 5000, b'{"a":' * 5000, b"a." * 50_000, b"\xff", b"9" * 6000, b"\0", b'"', b"\n", b"NaN",
)  # fmt: skip
"""What is put into the middle of a file."""
REPORTS = 0.03
"""Share of the cases in which a page is drawn: it takes a hundred times as long as a table."""


def prepare(folder: Path) -> list[Path]:
    """Make a run, several seeds, a comparison, a sweep and a regression; return their folders."""
    os.chdir(folder)
    os.environ["MNEMON_NO_REPORT"] = "1"
    os.environ["COLUMNS"] = "80"
    Path("space.toml").write_text('preset = "split-digits"\ntrials = 2\n[search]\nbeta = [0.1, 0.2]\n')
    made = {
        "run": ["run"],
        "seeds": ["run", "--seeds", "2", "--workers", "1"],
        "voted": ["run", "split-digits-cl3-hnet-ent"],
        "map": ["run", "--set", "embedding_size=2"],
        "comparison": ["compare", "hypernet", "joint", "--workers", "1"],
        "sweep": ["sweep", "space.toml", "--workers", "1"],
    }
    for name, words in made.items():
        code, said = ended([*words, *SMALL, "--out", name, "--quiet"])
        assert code == 0, said
    code, said = ended(["run", "toy", "--set", "steps=3", "--out", "toy", "--quiet"])
    assert code == 0, said
    assert ended(["report", "map"])[0] == 0  # makes the map
    return [folder / name for name in (*made, "toy")]


def case(folders: list[Path], number: int) -> str:
    """Damage a file of a folder, look at it, and put it back."""
    draw = random.Random(number)
    look = draw.choices(("report", "resume", "list", "show"), (REPORTS, 0.1, 0.15, 0.72))[0]
    folder = draw.choice(folders)
    if look == "resume":  # what is resumed changes: that is done with a copy
        shutil.rmtree("copy", ignore_errors=True)
        folder = Path(shutil.copytree(folder, "copy"))
        if draw.random() < 0.5:
            _begin_anew(folder)
    found = [path for kind in FILES for path in sorted(folder.rglob(kind)) if path.is_file()]
    path = draw.choice(found)
    content = path.read_bytes()
    try:
        path.write_bytes(_damaged(path, content, draw))
        return _looked(folder, look, path)
    finally:
        path.write_bytes(content)


def _begin_anew(folder: Path) -> None:
    """Make runs what they are before their first step, so that resuming them does something."""
    for path in folder.rglob("record.json"):
        facts = json.loads(path.read_text())
        facts.update(finished=False, matrix=[], inferred=[], untrained=[], alarms=[])
        path.write_text(json.dumps(facts))
        for name in ("checkpoint.safetensors", "losses.jsonl"):
            (path.parent / name).unlink(missing_ok=True)


def _looked(folder: Path, look: str, path: Path) -> str:
    kinds = {"sweep": "sweep.json", "compare": "compare.json"}
    command = next((word for word, file in kinds.items() if (folder / file).exists()), "run")
    words = (
        [command, "--resume", str(folder), "--workers", "1", "--quiet"] if look == "resume" else [look, str(folder)]
    )
    if look == "report":
        words += ["--out", "page.html"]
    code, said = ended(words)
    where = f"{' '.join(words)} with another {path.name}"
    expected = (0,) if look == "list" else (0, 2)  # a list names what is damaged and goes on
    assert code in expected, f"{where}: exit code {code}: {said[-300:]}"
    assert code != 2 or re.search(r"^mnemon: [^\n]+\n\Z", said, re.M), f"{where}: {said[-300:]!r}"
    assert "\x1b" not in said, f"{where}: an escape sequence is shown"
    return f"{look}: {'refused' if code else 'taken'}"


def _damaged(path: Path, content: bytes, draw: random.Random) -> bytes:
    text = content.decode()
    if draw.random() < 0.2:
        return _with_damaged_bytes(content, draw)
    if path.suffix == ".json":
        return json.dumps(changed(json.loads(text), draw)).encode()
    if path.suffix == ".jsonl":
        lines = text.splitlines()
        at = draw.randrange(len(lines))
        lines[at] = json.dumps(changed(json.loads(lines[at]), draw))
        return "\n".join(lines).encode()
    if path.suffix == ".toml":
        with contextlib.suppress(TypeError, NotationError, ValueError):  # not every value can be TOML
            return write_toml(changed(read_toml(text), draw)).encode()
        return _with_damaged_bytes(content, draw)
    return _with_other_cell(text, draw).encode(errors="surrogatepass")


def _with_other_cell(text: str, draw: random.Random) -> str:
    lines = [line.split(",") for line in text.splitlines()]
    line = draw.choice(lines)
    line[draw.randrange(len(line))] = str(draw.choice(STRANGE))
    if draw.random() < 0.3:
        del line[draw.randrange(len(line))]
    return "\n".join(",".join(line) for line in lines)


def _with_damaged_bytes(content: bytes, draw: random.Random) -> bytes:
    data, at = bytearray(content), draw.randrange(max(len(content), 1))
    kind = draw.randrange(5)
    if kind == 0:
        del data[at:]
    elif kind == 1:
        del data[at : at + draw.randint(1, 30)]
    elif kind == 2:
        data[at:at] = draw.choice(PIECES)
    elif kind == 3 and data:
        data[at] ^= 1 << draw.randrange(8)
    else:
        data[at:at] = data[at : at + draw.randint(1, 60)]
    return bytes(data)


def ended(words: list[str]) -> tuple[int, str]:
    """Return exit code and all output of a command that is run in this process."""
    said = io.StringIO()
    with contextlib.redirect_stdout(said), contextlib.redirect_stderr(said):
        try:
            main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, said.getvalue()
