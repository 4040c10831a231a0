"""Huge pages: who gets them, who is left alone, and that it shows."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mnemon import allocator

WHOLE = "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824:glibc.malloc.trim_threshold=1073741824"
needs_huge_pages = pytest.mark.skipif(not allocator._supported(), reason="this system has no huge pages for malloc")
SHORT = ["--set", "steps=1", "--no-report", "--quiet", "--out", "run"]


@pytest.fixture(autouse=True)
def untouched(monkeypatch):
    monkeypatch.delenv(allocator.VARIABLE, raising=False)
    monkeypatch.delenv(allocator.NO_HUGE_PAGES, raising=False)


@pytest.fixture
def system(monkeypatch, tmp_path):
    """Make this a system with a C library and pages of one's choice."""

    def make(library: str | None = "glibc 2.36", pages: str = "always [madvise] never\n") -> None:
        path = tmp_path / "enabled"
        path.write_text(pages)
        monkeypatch.setattr(allocator, "PAGES", path)
        monkeypatch.setattr(os, "confstr", lambda name: library)

    return make


@pytest.mark.parametrize("library", ["glibc 2.35", "glibc 2.41", "glibc 3.0"])
@pytest.mark.parametrize("pages", ["always [madvise] never\n", "[always] madvise never\n"])
def test_where_they_are_known_they_are_asked_for(system, library, pages):
    system(library, pages)
    assert allocator.settings() == WHOLE


@pytest.mark.parametrize(
    ("library", "pages"),
    [("glibc 2.34", "[madvise]"), ("musl 1.2", "[madvise]"), (None, "[madvise]"), ("glibc 2.36", "always [never]")],
)
def test_elsewhere_nothing_is_set(system, library, pages):
    system(library, pages)
    assert allocator.settings() is None
    assert allocator.in_words() == "as the system has it"


def test_a_system_of_another_kind_is_left_alone(system, monkeypatch):
    system()
    monkeypatch.setattr(allocator, "PAGES", Path("/nowhere"))
    assert allocator.settings() is None
    monkeypatch.delattr(os, "confstr")  # Windows
    assert allocator.settings() is None


@pytest.mark.parametrize(("value", "off"), [("1", True), ("yes", True), ("0", False), ("", False), ("no", False)])
def test_the_switch_leaves_everything_as_it_is(system, monkeypatch, value, off):
    system()
    monkeypatch.setenv("MNEMON_NO_HUGE_PAGES", value)
    assert (allocator.settings() is None) == off


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        ("glibc.malloc.hugetlb=0", "glibc.malloc.hugetlb=0" + WHOLE.removeprefix("glibc.malloc.hugetlb=1")),
        ("glibc.rtld.nns=2:glibc.malloc.trim_threshold=5", "glibc.rtld.nns=2:glibc.malloc.trim_threshold=5:"
         "glibc.malloc.hugetlb=1:glibc.malloc.mmap_threshold=1073741824"),
        (WHOLE, WHOLE),
    ],
)  # fmt: skip
def test_what_the_user_has_set_goes_before(system, monkeypatch, given, wanted):
    system()
    monkeypatch.setenv(allocator.VARIABLE, given)
    assert allocator.settings() == wanted


@pytest.mark.parametrize("before", [None, "glibc.rtld.nns=2"])
def test_the_environment_is_put_back_after_processes_were_started(system, monkeypatch, before):
    system()
    if before is not None:
        monkeypatch.setenv(allocator.VARIABLE, before)
    with contextlib.suppress(KeyError), allocator.processes_with_huge_pages():
        assert os.environ[allocator.VARIABLE].endswith(WHOLE)
        raise KeyError
    assert os.environ.get(allocator.VARIABLE) == before


@pytest.fixture
def restarts(monkeypatch) -> list:
    """Note with what this process would have been replaced."""
    seen: list = []
    monkeypatch.setattr(os, "execve", lambda *words: seen.append(words))
    monkeypatch.setattr(sys, "orig_argv", ["python", "-X", "dev", "-m", "mnemon", "run", "a b"])
    return seen


def test_a_program_starts_anew_once_with_the_same_words(system, restarts, monkeypatch):
    system()
    allocator.restart_with_huge_pages()
    (path, words, environment) = restarts.pop()
    assert (path, words) == (sys.executable, [sys.executable, "-X", "dev", "-m", "mnemon", "run", "a b"])
    assert environment == {**os.environ, allocator.VARIABLE: WHOLE}
    monkeypatch.setenv(allocator.VARIABLE, environment[allocator.VARIABLE])
    allocator.restart_with_huge_pages()
    assert not restarts


def test_a_program_that_cannot_start_anew_goes_on(system, monkeypatch):
    def refuse(*words):
        raise PermissionError

    system()
    monkeypatch.setattr(os, "execve", refuse)
    allocator.restart_with_huge_pages()


# Real processes


def mnemon(folder: Path, *words: str, **environment: str) -> subprocess.CompletedProcess:
    command = [sys.executable, "-m", "mnemon", *words]
    whole = {**os.environ, **environment}
    return subprocess.run(command, cwd=folder, env=whole, capture_output=True, text=True, check=False)


def allocators(folder: Path) -> list[str]:
    return [json.loads(path.read_text())["versions"]["allocator"] for path in sorted(folder.rglob("record.json"))]


@needs_huge_pages
def test_a_run_has_them_and_its_record_says_so(tmp_path):
    assert mnemon(tmp_path, "run", "toy", *SHORT).returncode == 0
    assert allocators(tmp_path) == ["huge pages"]


def test_a_run_without_them_says_so(tmp_path):
    assert mnemon(tmp_path, "run", "toy", *SHORT, MNEMON_NO_HUGE_PAGES="1").returncode == 0
    assert allocators(tmp_path) == ["as the system has it"]


@needs_huge_pages
def test_workers_have_them_even_where_the_parent_has_not(tmp_path):
    program = f"""
import os, sys
from mnemon import allocator
from mnemon.cli import main
if __name__ == "__main__":
    assert allocator.in_words() == "as the system has it"
    try:
        main(["run", "toy", "--seeds", "2", "--workers", "2", *{SHORT}])
    finally:
        assert "{allocator.VARIABLE}" not in os.environ
"""
    (tmp_path / "program.py").write_text(program)
    subprocess.run([sys.executable, "program.py"], cwd=tmp_path, check=True, stdout=subprocess.DEVNULL, timeout=120)
    assert allocators(tmp_path) == ["huge pages"] * 2


@needs_huge_pages
@pytest.mark.parametrize(("switch", "least", "most"), [("0", 60, 10_000), ("1", 0, 0)])
def test_tensors_lie_in_huge_pages(tmp_path, switch, least, most):
    program = """
from mnemon.allocator import restart_with_huge_pages
restart_with_huge_pages()
import torch
kept = [torch.ones(2**22) for _ in range(4)]  # 16 MB each
sizes = [line.split()[1] for line in open("/proc/self/smaps") if line.startswith("AnonHugePages")]
print(sum(map(int, sizes)) // 1024)
"""
    environment = {**os.environ, allocator.NO_HUGE_PAGES: switch}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=120)
    if "[always]" in allocator.PAGES.read_text():
        most = 10_000
    assert least <= int(done.stdout) <= most


def test_an_import_changes_nothing():
    program = """
import os
before = dict(os.environ), os.getpid()
import mnemon, mnemon.allocator
mnemon.ContinualModel
assert (dict(os.environ), os.getpid()) == before
assert mnemon.allocator.in_words() == "as the system has it"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=120)


def test_exit_codes_and_messages_are_the_same(tmp_path):
    done = mnemon(tmp_path, "run", "no such preset")
    assert done.returncode == 2
    assert done.stderr.startswith("mnemon: Unknown preset 'no such preset'.")


@needs_huge_pages
def test_ctrl_c_reaches_the_run_and_saves(tmp_path):
    words = ["run", "toy", "--set", "steps=1000000", "--set", "checkpoint_seconds=0", *SHORT[2:]]
    command = [sys.executable, "-m", "mnemon", *words]
    process = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    limit = time.monotonic() + 120
    while not (tmp_path / "run" / "checkpoint.safetensors").exists():
        assert process.poll() is None
        assert time.monotonic() < limit
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=120)
    assert process.returncode == 130, err
    assert out.startswith("Stopped; everything is saved.")
    assert allocators(tmp_path) == ["huge pages"]
