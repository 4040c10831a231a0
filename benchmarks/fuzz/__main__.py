"""Attack mnemon; the exit code is 1 if a fault was found."""

from __future__ import annotations

import argparse
import importlib
import sys

from benchmarks.fuzz.harness import attack

ATTACKS = {
    "files": (100_000, 5.0),
    "codes": (10_000, 5.0),
    "records": (10_000, 5.0),
    "commands": (1_000, 60.0),
    "kills": (200, 120.0),
    "interrupts": (1_000, 60.0),
    "calls": (1_000, 30.0),
}
"""Module of the attack -> cases, and CPU seconds that each may take."""


def main() -> int:
    """Run the attacks that are named, or all."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fuzz", description=__doc__)
    parser.add_argument("attacks", nargs="*", choices=[*ATTACKS, []], help="default: all")
    parser.add_argument("--cases", type=int, help="how many cases, in place of the usual number")
    parser.add_argument("--first", type=int, default=0, help="number of the first case")
    parser.add_argument("--workers", type=int, default=2)
    given = parser.parse_args()
    faults = 0
    for name in given.attacks or ATTACKS:
        cases, seconds = ATTACKS[name]
        module = importlib.import_module(f"benchmarks.fuzz.{name}")
        numbers = range(given.first, given.first + (given.cases or cases))
        report = attack(name, module.prepare, module.case, numbers, given.workers, seconds)
        print("\n".join(report.lines()), flush=True)
        faults += len(report.faults)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
