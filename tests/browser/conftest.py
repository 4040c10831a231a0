"""A report of real runs, and a real browser that looks at it."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from mnemon.experiments.compute import Compute
from mnemon.experiments.job import RunContext
from mnemon.experiments.preset import load_preset
from mnemon.experiments.run_config import resolve
from mnemon.experiments.study import new_jobs, run_jobs
from mnemon.results.figures import EmbeddingMap
from mnemon.results.report.write import write_report

ARGUMENTS = (
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip
SMALL = ("steps=20", "n_tasks=3", "target.hidden=[20]", "log_every=5")
EXPERIMENTS = {
    "split-digits": (3, (*SMALL, "chunk=300")),
    "split-digits-finetuned-target": (2, SMALL),
    "split-digits-cl3-hnet-r": (1, SMALL),
}


@pytest.fixture(scope="session")
def runs(tmp_path_factory) -> Path:
    """Short runs of three experiments; the first has a map of an embedding space, the last generated digits."""
    folder = tmp_path_factory.mktemp("runs")
    for name, (n_seeds, settings) in EXPERIMENTS.items():
        _, jobs = new_jobs(resolve(load_preset(name), settings), range(n_seeds), folder / name, Compute("cpu"))
        run_jobs(jobs, RunContext(Compute("cpu")))
    places = [i / 5 for i in range(21)]
    grids = {f"{k}": [[100 - 5 * abs(x - k) - 5 * abs(y - k) for x in places] for y in places] for k in (1, 2, 3)}
    EmbeddingMap(places, places, grids, {task: (float(task), float(task)) for task in grids}).write(
        folder / "split-digits" / "seed-0"
    )
    return folder


@pytest.fixture(scope="session")
def report(runs) -> Path:
    return write_report([runs])


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    path = shutil.which("chromium")
    if path is None:
        pytest.fail(
            "These tests need chromium: run `make test-browser`, or `apt-get install chromium`.", pytrace=False
        )
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path, args=list(ARGUMENTS))
        yield started
        started.close()


@dataclass
class Visit:
    """A page that was opened, and what went on behind it."""

    page: Any
    said: list[str] = field(default_factory=list)
    """Warnings and errors in the console."""
    asked: list[str] = field(default_factory=list)
    """Addresses that were asked for."""


@pytest.fixture
def visit(browser, report) -> Iterator[Callable[..., Visit]]:
    """Open the report as some device would, and draw all that is unfolded by scrolling through it."""
    contexts = []

    def open_page(width: int = 1280, height: int = 900, path: Path = report, **options: Any) -> Visit:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        visit = Visit(context.new_page())
        page = visit.page
        page.on("console", lambda m: visit.said.append(m.text) if m.type in ("error", "warning") else None)
        page.on("pageerror", lambda error: visit.said.append(str(error)))
        page.on("request", lambda request: visit.asked.append(request.url))
        page.goto(path.as_uri())
        return visit

    yield open_page
    for context in contexts:
        context.close()
