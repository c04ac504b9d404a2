"""report.html in a real browser, at a desk and on a phone, light and dark.

Needs playwright (PyPI) and a chromium of the system; without them the tests are skipped. The screenshots are left in
build/screenshots for somebody to look at.
"""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import render
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load

playwright = pytest.importorskip("playwright.sync_api")
CHROMIUM = next(
    (path for name in ("chromium", "chromium-browser", "google-chrome") if (path := shutil.which(name))), None
)
if CHROMIUM is None:
    pytest.skip("no chromium on this system", allow_module_level=True)

REPOSITORY = Path(__file__).resolve().parents[2]
EVIDENCE = REPOSITORY / "tests" / "fixtures" / "evidence"
SHOTS = REPOSITORY / "build" / "screenshots"
SIZES = {"desk": (1280, 900), "phone": (390, 844)}


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture(scope="module", params=["2026-09-13-lightning-thor", "sim-small"])
def report(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path: Path = tmp_path_factory.mktemp(request.param) / "report.html"
    path.write_text(render(load(EVIDENCE / request.param))["report.html"], encoding="utf-8")
    return path


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("size", SIZES)
def test_the_report_in_a_browser(browser: Any, report: Path, size: str, scheme: str) -> None:
    width, height = SIZES[size]
    context = browser.new_context(viewport={"width": width, "height": height}, color_scheme=scheme)
    page = context.new_page()
    said: list[str] = []
    asked: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.on("pageerror", lambda error: said.append(str(error)))
    page.on("request", lambda request: asked.append(request.url))
    page.goto(report.as_uri())
    assert said == []
    assert asked == [report.as_uri()]
    assert page.inner_text("h1").startswith("spike — NVIDIA-Nemotron-3.5-Lightning-30B-A3B-NVFP4 on thor: SERVES up to")
    assert page.locator("#tables table").count() == 4
    assert page.locator("svg.chart").count() > 10
    # Whoever reads on a phone scrolls down, never sideways; what is wide scrolls within itself.
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    broken = page.evaluate(
        "[...document.querySelectorAll('a')].map(a => a.getAttribute('href'))"
        ".filter(h => !h.startsWith('#') || !document.getElementById(h.slice(1)))"
    )
    assert broken == []
    page.locator("#tables td a").first.click()
    assert page.evaluate("document.querySelector(':target') !== null")
    colour = page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert colour == {"light": "rgb(255, 255, 255)", "dark": "rgb(13, 17, 23)"}[scheme]
    SHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SHOTS / f"{report.parent.name.rstrip('0123456789')}-{size}-{scheme}.png", full_page=True)
    context.close()


def test_the_report_on_paper(browser: Any, report: Path) -> None:
    page = browser.new_page()
    page.goto(report.as_uri())
    pdf = page.pdf(format="A4")
    assert pdf.startswith(b"%PDF")
    page.emulate_media(media="print")
    assert not page.is_visible("nav")
    page.close()
