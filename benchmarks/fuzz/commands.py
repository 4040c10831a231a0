"""Type odd command lines: each ends with exit code 0, 2 (one line of error) or 130, and never in a traceback."""

from __future__ import annotations

import contextlib
import io
import itertools
import os
import random
import re
import shutil
from pathlib import Path

from mnemon.cli import main
from mnemon.experiments.preset import all_presets
from mnemon.experiments.reproduce.recipe import chosen
from mnemon.experiments.run_config import REGISTRIES, resolve
from mnemon.experiments.sweep.space_file import all_spaces

COMMANDS = ("run", "compare", "reproduce", "sweep", "report", "presets", "settings", "show", "data", "list")
OPTIONS = (
    "--out", "--resume", "--seeds", "--seed", "--workers", "--threads", "--device", "--data", "--on", "--quiet",
    "--no-report", "--dry-run", "--list", "--only", "--budget", "--report", "--keep", "--also", "--benchmark",
    "--scenario", "--trials", "--minutes", "--storage", "--study", "--open", "--tensorboard", "--help", "--version",
    "--beta", "-s", "-h", "--no-quiet", "---", "--set=", "--seeds=",
)  # fmt: skip
URL = "postgresql://u:secret@h/d?password=covert"
VALUES = (
    "", " ", "0", "1", "2", "-1", "1.5", "1e9", "99999999999999999999", "nan", "inf", "none", "true", "x", "cpu",
    "cuda:9", "mps", "auto", "cl1", "cl2", "cl3", "smoke", "paper", "ray:nowhere", ".", "..", "gone/deep", "run",
    "gone", "é☃", "\x1b[31m", "a" * 5000, "[" * 3000, "{", "[]", "[1,2]", '"', "'", "=", "a=b", "beta=", "=1",
    "steps=0", "steps=-1", "hidden=[]", "hidden=[0]", "hidden=[[1]]", "hidden=9", "lr=nan", "lr=1e308", "beta=inf",
    "seed=1", "sqlite://", "s3://", URL, "file:///nowhere/x", "split-digits", "hypernet:beta=1", "hypernet:",
    ":beta=1", "finished", "finished/record.json", "damaged", "space.toml", "preset.toml", "table-1", "fig-beta",
)  # fmt: skip
SMALL = ("steps=1", "n_tasks=2", "target.hidden=[4]")


def prepare(folder: Path) -> tuple[Path, list[str], list[str]]:
    """Make a folder with a finished run, a damaged one and some files; return it with all names and settings."""
    home = folder / "home"
    home.mkdir()
    os.chdir(home)
    os.environ["MNEMON_NO_REPORT"] = "1"
    os.environ["COLUMNS"] = "80"
    os.environ.pop("MNEMON_DATA", None)
    small = [word for setting in SMALL for word in ("--set", setting)]
    assert _ended(["run", *small, "--out", "finished", "--quiet"])[0] == 0
    shutil.copytree("finished", "damaged")
    Path("damaged/record.json").write_text('{"format": 2}')
    Path("space.toml").write_text('preset = "split-digits"\ntrials = 1\n[search]\nbeta = [0.1]\n')
    Path("preset.toml").write_text('like = "split-digits"\n[method]\nbeta = "x"\n')
    names = [preset.name for preset in all_presets() if "digits" in preset.name or preset.name == "toy"]
    names += [*all_spaces(), *(recipe.name for recipe in chosen((), ()))]
    names += [name for registry in REGISTRIES.values() for name in registry.table]
    tables = resolve(all_presets()[0], ()).plain()
    settings = [f"{section}.{key}" for section, table in tables.items() if isinstance(table, dict) for key in table]
    return home, names, settings


def case(prepared: tuple[Path, list[str], list[str]], number: int) -> str:
    """Type a command line that follows from the number."""
    home, names, settings = prepared
    words = _line(random.Random(number), names, settings)
    before = set(home.rglob("*"))
    code, out, err = _ended(words)
    assert code in (0, 1, 2, 130), f"{words}: exit code {code}"
    assert "Traceback" not in err + out, f"{words}: {err[-300:]}"
    assert code != 2 or re.fullmatch(r"mnemon: [^\n]+\n", err), f"{words}: {err[-300:]!r}"
    assert len(err) < 3000, f"{words[:2]}: an error of {len(err)} characters"
    assert "\x1b[31m" not in err + out, f"{words}: an escape sequence is shown"
    if ("--storage", URL) in itertools.pairwise(words):
        assert not re.search("secret|covert", err + out), f"{words}: a password is shown"
    for path in sorted(set(home.rglob("*")) - before, reverse=True):
        shutil.rmtree(path) if path.is_dir() else path.unlink(missing_ok=True)
    return f"exit code {code}"


def _line(draw: random.Random, names: list[str], settings: list[str]) -> list[str]:
    command = draw.choice((*COMMANDS, draw.choice(VALUES)))
    words = [command]
    for _ in range(draw.randrange(6)):
        kind = draw.randrange(5)
        if kind == 0:
            words.append(draw.choice(names))
        elif kind == 1:
            words += ["--set", f"{draw.choice(settings).rpartition('.')[2]}={draw.choice(VALUES)}"]
        elif kind == 2:
            words += [draw.choice(OPTIONS), draw.choice((*VALUES, *names))]
        else:
            words.append(draw.choice((*VALUES, *OPTIONS)))
    if command in ("run", "compare"):  # what does begin is over in a moment
        words += [word for setting in SMALL for word in ("--set", setting)]
    if command == "sweep":
        words += ["--trials", "1", *(word for setting in SMALL for word in ("--set", setting))]
    if command == "reproduce":  # whatever else is said: hours of work are not the matter here
        words += draw.choice((["--list"], ["--report", "page.md"], ["--budget", "x"], ["--only", "nothing"]))
    return words


def _ended(words: list[str]) -> tuple[int, str, str]:
    """Return exit code, output and errors of a command that is run in this process."""
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            main(words)
        except SystemExit as end:
            code = int(end.code or 0)
    return code, out.getvalue(), err.getvalue()
