"""A small part of each attack that is kept in benchmarks/fuzz; the whole of it runs by `make fuzz`."""

from __future__ import annotations

import importlib

import pytest

from benchmarks.fuzz.__main__ import ATTACKS
from benchmarks.fuzz.harness import attack_here

PARTS = {"files": 400, "codes": 200, "records": 120, "commands": 60, "kills": 6, "interrupts": 30, "calls": 200}


def test_every_attack_has_a_part_here():
    assert PARTS.keys() == ATTACKS.keys()


@pytest.mark.parametrize("name", PARTS)
def test_an_attack_finds_no_fault(name, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    for variable in ("MNEMON_NO_REPORT", "COLUMNS", "MNEMON_DATA"):  # attacks set them: here they are put back
        monkeypatch.setenv(variable, "")
        monkeypatch.delenv(variable)
    module = importlib.import_module(f"benchmarks.fuzz.{name}")
    report = attack_here(name, module.prepare, module.case, range(PARTS[name]), tmp_path, ATTACKS[name][1])
    assert sum(report.endings.values()) == PARTS[name]
    assert not report.faults, "\n".join(report.lines())
