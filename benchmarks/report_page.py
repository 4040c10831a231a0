"""How large the report of many runs is, and how long a browser takes to open it.

python -m benchmarks.report_page RUN...

The page is opened in headless Chromium, each time in a new profile; the clock runs from the request to the first
figure that is drawn.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
import time
from pathlib import Path

from playwright.sync_api import sync_playwright

from mnemon.results.report.write import write_report

BAR_SECONDS, BAR_MEGABYTES = 2.0, 3.0
REPEATS = 5


def opening_times(page: Path) -> list[float]:
    found = []
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for _ in range(REPEATS):
            tab = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
            begun = time.perf_counter()
            tab.goto(page.as_uri(), wait_until="commit")
            tab.wait_for_selector("svg, canvas")
            found.append(time.perf_counter() - begun)
            tab.context.close()
        browser.close()
    return found


def main() -> None:
    folders = [Path(name) for name in sys.argv[1:]]
    with tempfile.TemporaryDirectory() as place:
        page = write_report(folders, Path(place) / "report.html")
        seconds, megabytes = opening_times(page), page.stat().st_size / 1e6
    print(f"{len(folders)} runs: {megabytes:.2f} MB (at most {BAR_MEGABYTES:g})")
    print(
        f"opened in {statistics.median(seconds):.2f} s ({min(seconds):.2f} to {max(seconds):.2f}; "
        f"at most {BAR_SECONDS:g})"
    )


if __name__ == "__main__":
    main()
