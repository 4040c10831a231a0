"""What mnemon costs beside plain PyTorch, beside its version before, and beside what the core could do.

python -m benchmarks.speed [CASE ...] [--list] [--against FOLDER] [--keep] [--before FILE]

Without words all cases are measured, each in processes of its own; a word stands for the case of that name and for
all whose names go on with a hyphen (`p10` is p10-2, p10-10 …). Times are CPU times on one thread, of both sides in
turns. The version before is known from a file, which `--keep` writes, or is measured, too, in turns with this one:
`--against FOLDER` names its `src`, such as `git worktree add ../before COMMIT` makes one in ../before/src.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import datetime
import functools
import json
import os
import platform
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

import mnemon
from benchmarks.cases import CASES, Case
from benchmarks.timing import Measured, Quartiles, Rounds, summary

BEFORE = Path(__file__).with_name("baseline.json")
"""What the version before came to, and on which machine."""


def main(words: Sequence[str] | None = None) -> int:
    options = _options(words)
    if options.list:
        print("\n".join(f"{name:20} {case.first} / {case.second}" for name, case in CASES.items()))
        return 0
    if options.one:
        print(json.dumps(dataclasses.asdict(_measured_here(CASES[options.one]))))  # for the process that asked
        return 0
    file = json.loads(options.before.read_text()) if options.before.exists() else {"cases": {}}
    print(_heading(file, options.against))
    kept, missed = dict(file["cases"]), False
    for name in _chosen(options.case):
        measured, before = _measured_apart(name, options.against)
        missed |= _print(name, measured, before or _known(file["cases"].get(name)))
        kept[name] = dataclasses.asdict(measured)
        if options.keep:
            options.before.write_text(json.dumps({**_machine(), "cases": kept}, indent=1) + "\n")
    return int(missed)


def _options(words: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.speed", description=__doc__.splitlines()[0])
    parser.add_argument("case", nargs="*", help="what is measured; all if not given")
    parser.add_argument("--list", action="store_true", help="say which cases there are")
    parser.add_argument("--keep", action="store_true", help="write the numbers to the file of the version before")
    parser.add_argument("--before", type=Path, default=BEFORE, metavar="FILE", help="numbers to compare with")
    parser.add_argument("--against", type=Path, metavar="FOLDER", help="an earlier version, measured in turns")
    parser.add_argument("--one", choices=CASES, help=argparse.SUPPRESS)
    return parser.parse_args(words)


def _chosen(words: Sequence[str]) -> list[str]:
    unknown = [word for word in words if not _named(word)]
    if unknown:
        sys.exit(f"There is no case '{unknown[0]}'; --list shows all.")
    found = {name for word in words for name in _named(word)}
    return [name for name in CASES if name in found or not words]


def _named(word: str) -> list[str]:
    return [name for name in CASES if name == word or name.startswith(f"{word}-")]


# Measuring


def _measured_here(case: Case) -> Rounds:
    torch.set_num_threads(1)
    torch.manual_seed(0)
    return case.measure()


def _measured_apart(name: str, against: Path | None) -> tuple[Measured, Measured | None]:
    """Measure a case in processes of its own; the version before, if it is given, in turns with this one.

    No case leaves its memory and caches to the next, and where a process happens to have its memory evens out.
    """
    sources = [Path(mnemon.__file__).parent.parent, *([against.resolve()] if against else [])]
    rounds = [[_one_process(name, source) for source in sources] for _ in range(CASES[name].processes)]
    now, *before = (summary(functools.reduce(Rounds.and_those_of, found)) for found in zip(*rounds, strict=True))
    return now, before[0] if before else None


def _one_process(name: str, source: Path) -> Rounds:
    command = [sys.executable, "-m", "benchmarks.speed", "--one", name]
    path = os.pathsep.join([str(source), *filter(None, [os.environ.get("PYTHONPATH")])])
    with _memory_as_in(source):
        environment = {**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": "1"}
        done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    return Rounds(**json.loads(done.stdout.splitlines()[-1]))


def _memory_as_in(source: Path) -> contextlib.AbstractContextManager[None]:
    """Let processes have what a version of mnemon gives to those that it starts."""
    if not (source / "mnemon" / "allocator.py").exists():  # an earlier version
        return contextlib.nullcontext()
    from mnemon.allocator import processes_with_huge_pages

    return processes_with_huge_pages()


def _known(values: dict[str, Any] | None) -> Measured | None:
    """Return what a file has of a case."""
    if values is None:
        return None
    return Measured(**{name: tuple(v) if isinstance(v, list) else v for name, v in values.items()})


def _machine() -> dict[str, Any]:
    """Say where and when the numbers were taken, and with what."""
    found = {
        line.split(":", 1)[0].strip(): line.split(":", 1)[1].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if ":" in line
    }
    return {
        "machine": f"{found.get('model name', platform.machine())}, {torch.backends.cpu.get_cpu_capability()}, "
        f"{os.cpu_count()} cores, {platform.system()}",
        "versions": {
            "mnemon": _commit() or mnemon.__version__,
            "python": platform.python_version(),
            "torch": torch.__version__,
        },
        "date": datetime.date.today().isoformat(),
    }


def _commit() -> str:
    """Return the commit of the code that is measured, if git knows it."""
    home = Path(mnemon.__file__).parent
    done = subprocess.run(["git", "log", "-1", "--format=%h", "--", "."], cwd=home, capture_output=True, text=True)
    return done.stdout.strip()


# Showing


def _heading(file: dict[str, Any], against: Path | None) -> str:
    now, before = _machine(), "Nothing is known of the version before."
    if against is not None:
        before = f"Before: the version in {against}, measured in turns."
    elif "machine" in file:
        before = f"Before: {file['versions']['mnemon']} on {file['machine']}, {file['date']}."
    machine = f"{now['machine']}; torch {now['versions']['torch']}, one thread"
    return f"{machine}. Medians (and quartiles) of CPU times.\n{before}"


def _print(name: str, now: Measured, before: Measured | None) -> bool:
    """Print what a case came to; return whether a bar was missed."""
    case = CASES[name]
    print(f"{name}: {case.first} / {case.second}")
    print("\n".join(f"    {line}" for line in _lines(now, before)))
    missed = False
    for bar in case.bars:
        met = bar.met(now, before)
        if met is not None:
            missed |= not met
            print(f"    {bar.text}: {'met' if met else 'MISSED'}")
    sys.stdout.flush()
    return missed


def _lines(now: Measured, before: Measured | None) -> Iterator[str]:
    unit = now.unit
    yield f"{_shown(now.first)} / {_shown(now.second)} {unit} = {_shown(now.ratio)}"
    if before is not None:
        # Both are ratios to the same plain thing: so a slower or a busier machine counts for nothing.
        change = now.ratio[1] / before.ratio[1]
        yield (
            f"before: {_shown(before.first)} / {_shown(before.second)} {unit} = {_shown(before.ratio)}; "
            f"now / before {change:.3f} by these ratios, {now.first[1] / before.first[1]:.3f} by {unit}"
        )
    if now.gflop and now.peak is not None and now.share is not None:
        least = 1000 * now.gflop / now.peak[1]
        share = " to ".join(f"{100 * now.share[i]:.0f}" for i in (0, 2))
        yield (
            f"{now.gflop:.3g} GFLOP take {least:.3g} ms at {_shown(now.peak)} GFLOP/s: "
            f"{100 * now.share[1]:.0f} % ({share}) of the core's speed is used"
        )


def _shown(values: Quartiles) -> str:
    low, middle, high = (f"{value:.2f}" if value < 100 else f"{value:.0f}" for value in values)
    return f"{middle} ({low} to {high})" if low != high else middle


if __name__ == "__main__":
    sys.exit(main())
