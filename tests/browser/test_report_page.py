"""A report as a person sees it: drawn, quiet, offline, on a desk, on a phone and in the dark."""

from __future__ import annotations

import re
from itertools import pairwise

import pytest

from mnemon.results.report.write import write_report

pytestmark = pytest.mark.browser

WAIT = 20_000


def unfold(page) -> int:
    """Unfold everything and scroll to each chart until it is drawn; return how many there are."""
    page.evaluate("document.querySelectorAll('details').forEach((d) => { d.open = true; })")
    charts = page.evaluate("Array.from(document.querySelectorAll('.chart'), (chart) => chart.id)")
    for chart in charts:
        page.evaluate("(id) => document.getElementById(id).scrollIntoView()", chart)
        page.wait_for_selector(f"#{chart}[data-drawn] svg.marks", state="attached", timeout=WAIT)
    return len(charts)


def brightness(colour: str) -> float:
    red, green, blue = (int(part) for part in re.findall(r"\d+", colour)[:3])
    return (0.2126 * red + 0.7152 * green + 0.0722 * blue) / 255


def colours_of(page) -> tuple[float, float, float]:
    """Return how bright the page, its text and the labels of its first chart are."""
    label = ".chart[data-drawn] svg .role-axis-label text"
    found = page.evaluate(
        f"""[getComputedStyle(document.body).backgroundColor, getComputedStyle(document.body).color,
        getComputedStyle(document.querySelector({label!r})).fill]"""
    )
    return tuple(brightness(colour) for colour in found)


def test_every_chart_is_drawn_without_an_error_or_a_request(visit, report):
    seen = visit()
    n_charts = unfold(seen.page)
    assert n_charts >= 15
    assert seen.said == []
    assert seen.asked == [report.as_uri()]
    # Something is in each: marks of data, not axes alone.
    empty = seen.page.evaluate(
        """Array.from(document.querySelectorAll('.chart')).filter(
            (chart) => !chart.querySelector('[class*="mark-"][class*="role-mark"] path')).map((chart) => chart.id)"""
    )
    assert empty == []


def test_generated_digits_are_shown(visit):
    page = visit().page
    unfold(page)
    image = page.locator("figure img")
    assert image.count() == 1
    image.scroll_into_view_if_needed()
    page.wait_for_function("document.querySelector('figure img').naturalWidth > 100", timeout=WAIT)


def test_experiments_unfold_by_a_click_and_by_their_links(visit, runs, tmp_path):
    path = write_report([*(runs / "split-digits").iterdir()], tmp_path / "one.html")
    page = visit(path=path).page
    section = page.locator("#experiment-1 > details")
    assert section.get_attribute("open") is not None
    page.locator("#experiment-1 > details > summary").click()
    assert section.get_attribute("open") is None
    page.locator("a[href='#experiment-1']").click()
    page.wait_for_function("document.querySelector('#experiment-1 > details').open", timeout=WAIT)
    settings = page.locator("summary", has_text="Every setting")
    settings.click()
    assert page.get_by_role("rowheader", name="method.beta").is_visible()


def test_the_map_shows_the_task_that_is_chosen_and_the_value_under_the_pointer(visit):
    page = visit().page
    unfold(page)
    chart = page.locator(".chart", has=page.locator("select"))
    cell = chart.locator("svg.marks .mark-rect path").first
    before = cell.get_attribute("fill")
    chart.locator("select").select_option(label="3")
    page.wait_for_function(
        "([place, fill]) => place.getAttribute('fill') !== fill", arg=[cell.element_handle(), before], timeout=WAIT
    )
    cell.hover()
    tooltip = page.locator("#vg-tooltip-element")
    tooltip.wait_for(timeout=WAIT)
    assert "accuracy (%)" in tooltip.inner_text()
    assert "70.0" in tooltip.inner_text()  # 100 - 5 * 3 - 5 * 3, at the corner


@pytest.mark.parametrize("width", [390, 768])
def test_nothing_sticks_out_of_a_narrow_screen(visit, width):
    seen = visit(width, 844)
    unfold(seen.page)
    assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    over = seen.page.evaluate(
        "Array.from(document.querySelectorAll('.chart svg.marks')).filter("
        "(svg) => svg.getBoundingClientRect().right > innerWidth).length"
    )
    assert over == 0
    assert seen.said == []


def test_text_and_charts_are_bright_in_the_dark_and_dark_in_the_light(visit):
    for scheme, sign in (("light", 1), ("dark", -1)):
        page = visit(color_scheme=scheme).page
        unfold(page)
        paper, ink, label = colours_of(page)
        assert sign * (paper - ink) > 0.6
        assert sign * (paper - label) > 0.6


def test_a_page_that_turns_dark_takes_its_charts_along(visit):
    page = visit(color_scheme="light").page
    unfold(page)
    page.emulate_media(color_scheme="dark")
    paper, _, label = colours_of(page)
    assert label - paper > 0.6


def test_tables_need_no_javascript(visit):
    page = visit(java_script_enabled=False).page
    assert page.get_by_text("Figures need JavaScript; the tables hold their numbers.").is_visible()
    rows = page.locator("table").first.locator("tbody tr")
    assert rows.count() == 3
    assert rows.first.is_visible()


def test_the_page_is_built_so_that_it_can_be_read_aloud(visit):
    page = visit().page
    unfold(page)
    levels = [
        int(tag[1]) for tag in page.evaluate("Array.from(document.querySelectorAll('h1,h2,h3'), (h) => h.tagName)")
    ]
    assert levels.count(1) == 1
    assert all(b - a <= 1 for a, b in pairwise(levels))
    unnamed = page.evaluate(
        """[...Array.from(document.querySelectorAll('table')).filter((t) => !t.caption?.textContent.trim()),
            ...Array.from(document.querySelectorAll('img')).filter((i) => !i.alt),
            ...Array.from(document.querySelectorAll('svg.marks')).filter(
                (s) => !(s.getAttribute('aria-label') || s.parentElement.getAttribute('aria-label')))].length"""
    )
    assert unnamed == 0
