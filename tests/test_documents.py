"""What the documents say holds: their links lead somewhere and their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_there_are_documents():
    assert {path.name for path in DOCUMENTS} >= {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "spine.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert "://" in link or (path.parent / link).exists(), link


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_is_left_to_fill_in(path):
    assert "@@" not in path.read_text(encoding="utf-8")


def test_the_example_of_the_readme_runs(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # it saves a file
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "README.md").read_text(encoding="utf-8"), re.DOTALL)
    names: dict = {}
    exec(code, names)
    assert names["model"].tasks == ["tuesday"]
    assert set(names["answer"].task) <= {"monday", "tuesday", "unknown"}
    assert (tmp_path / "memory.mnemon").exists()
