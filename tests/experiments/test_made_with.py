"""A record says what a run was made with, and nothing of the machine's names and folders."""

from __future__ import annotations

import json
import platform
import shutil
import subprocess
from pathlib import Path

import pytest
import torch

from mnemon.experiments import made_with
from mnemon.results.record import RECORD, RunRecord

ROOT = Path(__file__).parents[2]
KNOWN = {"mnemon", "commit", "python", "torch", "numpy", "system", "processor", "threads", "device", "allocator"}
RECORDS = sorted((ROOT / "docs" / "results" / "records").rglob(RECORD))


def git(tree: Path, *words: str) -> str:
    who = ("-c", "user.name=a", "-c", "user.email=a@b.invalid")
    said = subprocess.run(["git", "-C", str(tree), *who, *words], check=True, capture_output=True, text=True)
    return said.stdout.strip()


@pytest.fixture
def package(tmp_path, monkeypatch) -> Path:
    """The package in a source tree that is a git checkout."""
    if shutil.which("git") is None:
        pytest.skip("git is not installed")
    for name in ("GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE"):
        monkeypatch.delenv(name, raising=False)
    folder = tmp_path / "tree" / "src" / "mnemon"
    folder.mkdir(parents=True)
    (folder / "a.py").write_text("1\n")
    git(tmp_path / "tree", "init", "-q")
    git(tmp_path / "tree", "add", ".")
    git(tmp_path / "tree", "commit", "-q", "-m", "a")
    return folder


def commit_of(package: Path) -> str:
    """Ask anew: what was found before is kept."""
    made_with.commit.cache_clear()
    return made_with.commit(package)


def test_the_commit_is_that_of_the_source_tree_and_says_if_files_differ(package):
    tree = package.parents[1]
    assert commit_of(package) == git(tree, "rev-parse", "HEAD")
    git(tree, "tag", "-a", "v1", "-m", "a tag does not take the commit's place")
    (tree / "new.txt").write_text("not known to git\n")
    assert commit_of(package) == git(tree, "rev-parse", "HEAD")
    (package / "a.py").write_text("2\n")
    assert commit_of(package) == git(tree, "rev-parse", "HEAD") + "-dirty"


def test_the_commit_of_a_work_tree_is_its_own(package, tmp_path):
    git(package.parents[1], "worktree", "add", "-q", str(tmp_path / "other"))
    git(tmp_path / "other", "commit", "-q", "--allow-empty", "-m", "b")
    other = commit_of(tmp_path / "other" / "src" / "mnemon")
    assert other == git(tmp_path / "other", "rev-parse", "HEAD") != commit_of(package)


def test_the_commit_is_not_that_of_another_tree_that_git_was_told_of(package, tmp_path, monkeypatch):
    monkeypatch.setenv("GIT_DIR", str(tmp_path / "elsewhere"))
    assert len(commit_of(package)) == 40


def test_an_installed_package_has_no_commit_even_within_a_checkout(package):
    site = package.parents[1] / ".venv" / "lib" / "site-packages" / "mnemon"
    site.mkdir(parents=True)
    assert commit_of(site) == ""


def test_where_git_is_missing_or_knows_no_commit_nothing_is_said(package, tmp_path, monkeypatch):
    empty = tmp_path / "empty" / "src" / "mnemon"
    empty.mkdir(parents=True)
    git(tmp_path / "empty", "init", "-q")
    assert commit_of(empty) == ""
    (tmp_path / "broken" / "src" / "mnemon").mkdir(parents=True)
    (tmp_path / "broken" / ".git").write_text("gitdir: nowhere\n")
    assert commit_of(tmp_path / "broken" / "src" / "mnemon") == ""
    monkeypatch.setenv("PATH", str(tmp_path))
    assert commit_of(package) == ""


def test_git_is_not_waited_for_for_long(package, tmp_path, monkeypatch):
    slow = tmp_path / "bin" / "git"
    slow.parent.mkdir()
    slow.write_text("#!/bin/sh\nexec sleep 30\n")
    slow.chmod(0o755)
    monkeypatch.setattr(made_with, "PATIENCE", 0.05)
    monkeypatch.setenv("PATH", f"{slow.parent}:/bin:/usr/bin")
    assert commit_of(package) == ""


def test_git_is_asked_once(package, monkeypatch):
    first = commit_of(package)
    monkeypatch.setenv("PATH", "")
    assert made_with.commit(package) == first


@pytest.mark.parametrize(
    ("listed", "name"),
    [
        ("processor\t: 0\nmodel name\t: Some  CPU 2\n\nprocessor\t: 1\nmodel name\t: Another\n", "Some CPU 2"),
        ("processor\t: 0\nmodel name\t:\nBogoMIPS\t: 50\n", platform.processor()),
        ("processor\t: 0\nBogoMIPS\t: 50\n", platform.processor()),
        (None, platform.processor()),
    ],
)  # fmt: skip
def test_the_processor_has_its_name(tmp_path, listed, name):
    path = tmp_path / "cpuinfo"
    if listed is not None:
        path.write_text(listed)
    made_with.processor.cache_clear()
    assert made_with.processor(path) == name


def test_what_is_not_known_is_left_out(monkeypatch):
    monkeypatch.setattr(made_with, "commit", lambda package: "")
    monkeypatch.setattr(made_with, "processor", lambda listed: "Some CPU")
    found = made_with.made_with("cpu")
    assert list(found) == [
        "mnemon",
        "python",
        "torch",
        "numpy",
        "system",
        "processor",
        "threads",
        "device",
        "allocator",
    ]
    assert (found["processor"], found["threads"]) == ("Some CPU", str(torch.get_num_threads()))


def test_there_are_kept_records():
    assert len(RECORDS) > 100


@pytest.mark.parametrize("path", RECORDS, ids=lambda path: "/".join(path.parts[-3:-1]))
def test_kept_records_open_and_name_neither_machines_nor_folders(path):
    record = RunRecord.read(path.parent)
    texts = [*record.versions.values(), *record.alarms, json.dumps(record.config)]
    assert set(record.versions) <= KNOWN
    assert not any(f"{folder}/" in text for text in texts for folder in ("/home", "/work", "/tmp", "/root", "/Users"))
    assert not any(":\\" in text for text in texts)
