"""What the documents say holds: their links lead somewhere and their examples run."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from mnemon.experiments.reproduce import document
from mnemon.experiments.reproduce.recipe import chosen
from mnemon.experiments.reproduce.run_index import look
from mnemon.results.metrics import mean_and_sem
from mnemon.results.record import RunRecord, find_runs

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md")])


def test_there_are_documents():
    assert {path.name for path in DOCUMENTS} >= {"README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "spine.md"}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_to_files(path):
    for link in re.findall(r"\]\(([^)#]+)\)", path.read_text(encoding="utf-8")):
        assert "://" in link or (path.parent / link).exists(), link


def headings(path: Path) -> set[str]:
    """The names under which the headings of a document are linked to."""
    found = re.findall(r"^#+ (.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in found}


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_links_into_documents_lead_to_headings(path):
    for file, name in re.findall(r"\]\(([^)#:]*)#([^)]+)\)", path.read_text(encoding="utf-8")):
        assert name in headings(path.parent / file if file else path), f"{file}#{name}"


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: path.name)
def test_nothing_is_left_to_fill_in(path):
    assert "@@" not in path.read_text(encoding="utf-8")


def test_the_reproduction_is_what_the_kept_records_say(tmp_path):
    records = ROOT / "docs" / "results" / "records"
    document.write(tmp_path / "it.md", chosen(()), look(tmp_path / "nothing", [records]))
    assert (ROOT / "docs" / "reproduction.md").read_text(encoding="utf-8") == (tmp_path / "it.md").read_text(
        encoding="utf-8"
    ), "write it again: mnemon reproduce --report docs/reproduction.md --also docs/results/records"


def recorded() -> set[tuple[str, str]]:
    """What the kept records of each experiment say: the mean at the end with its error, and right after each task."""
    by_folder: dict[Path, list[RunRecord]] = {}
    for path in find_runs(ROOT / "docs" / "results" / "records"):
        by_folder.setdefault(path.parent, []).append(RunRecord.read(path))
    found = set()
    for records in by_folder.values():
        mean, sem = mean_and_sem([record.accuracy.final.value for record in records])
        during, _ = mean_and_sem([record.accuracy.during.value for record in records])
        found.add((f"{mean:.2f} ± {sem:.2f}" if len(records) > 1 else f"{mean:.2f}", f"{during:.2f}"))
    return found


def test_the_page_of_the_baselines_has_recorded_values_only():
    text = (ROOT / "docs" / "results" / "baselines.md").read_text(encoding="utf-8")
    quoted = []
    for table in re.findall(r"(?:^\|.*\n)+", text, re.MULTILINE):
        head, _, *rows = [[cell.strip() for cell in row.split("|")[1:-1]] for row in table.splitlines()]
        if "measured" in head:
            place = head.index("measured")
            assert head[place + 1] == "right after each task"
            quoted += [(row[place], row[place + 1]) for row in rows]
    assert len(quoted) == 13
    assert set(quoted) <= recorded()


def blocks(path: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", path.read_text(encoding="utf-8"), re.DOTALL)


@pytest.mark.parametrize("path", [path for path in DOCUMENTS if blocks(path)], ids=lambda path: path.name)
def test_the_python_of_a_document_runs(path, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    names: dict = {}
    for code in blocks(path):
        exec(code, names)
    if path.name == "README.md":
        check_readme(names, capsys.readouterr().out)


def check_readme(names: dict, printed: str) -> None:
    assert len(blocks(ROOT / "README.md")) == 7
    assert len(names["study"]) == 3
    assert names["table"].methods == ["joint", "from-scratch"]
    model = names["model"]
    assert model.tasks == ["monday", "tuesday"]
    assert min(model.evaluate(names[day], task=day) for day in model.tasks) >= 95
    assert len(names["answer"].task) == 3
    assert "monday: classes, 901 examples" in printed
    assert "\n0 task 1 True\n" in printed
    assert {path.name for path in Path().iterdir()} == {"memory.mnemon", "monday.pt2", "page.html", "runs"}
