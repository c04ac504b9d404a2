"""report.html as text: nothing outside, no script, every link leads somewhere, nothing untrusted is markup."""

from __future__ import annotations

import json
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from ansible_collections.lobes.spike.plugins.plugin_utils.document import render
from ansible_collections.lobes.spike.plugins.plugin_utils.evidence import load

EVIDENCE = Path(__file__).resolve().parents[2] / "fixtures" / "evidence"
VOID = {"meta", "br"}


class Page(HTMLParser):
    """Collects ids, links, tags and text, and notices tags that are not closed in order."""

    def __init__(self, source: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.tags: set[str] = set()
        self.words = ""
        self.open: list[str] = []
        self.attributes: set[str] = set()
        self.feed(source)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        for name, value in attrs:
            self.attributes.add(name)
            if name == "id":
                self.ids.append(value or "")
            if name in ("href", "src", "action"):
                self.links.append(value or "")

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attrs)
        if tag not in VOID:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        assert self.open, f"</{tag}> closes nothing"
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(params=["sim-small", "2026-09-13-lightning-thor", "nothing"])
def source(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return render(load(tmp_path if request.param == "nothing" else EVIDENCE / request.param))["report.html"]


def test_it_is_one_well_formed_file_without_scripts(source: str) -> None:
    page = Page(source)
    assert page.open == []
    assert not page.tags & {"script", "link", "iframe", "img", "object", "embed", "form", "base"}
    assert not [name for name in page.attributes if name.startswith("on")]
    assert "default-src 'none'" in source
    assert not re.search(
        r"url\(|@import|https?://", re.sub(r"<pre>.*?</pre>|<dd>.*?</dd>", "", source, flags=re.DOTALL)
    )
    assert len(source.encode()) < 1_000_000


def test_every_link_leads_to_a_place_in_the_page(source: str) -> None:
    page = Page(source)
    assert len(page.ids) == len(set(page.ids))
    assert {link.removeprefix("#") for link in page.links} <= set(page.ids)
    assert all(link.startswith("#") for link in page.links)


def test_every_measured_cell_leads_to_its_evidence() -> None:
    source = render(load(EVIDENCE / "2026-09-13-lightning-thor"))["report.html"]
    tables = source[source.index('<section id="tables">') : source.index('<section id="correctness">')]
    cells = re.findall(r'<td class="number[^"]*">(.*?)</td>', tables)
    assert len(cells) == 3 * (5 + 6 + 6 + 12)
    assert all(re.fullmatch(r'<a href="#[fr]\d+">.+</a>', cell) for cell in cells)


def test_the_pictures_are_there() -> None:
    seed = render(load(EVIDENCE / "2026-09-13-lightning-thor"))["report.html"]
    titles = (
        "Cold prefill", "Decode at depth", "Aggregate throughput", "Decode per request", "Time to first token", "Boots",
        "Temperature", "Power",
    )  # fmt: skip
    for title in titles:
        assert f'aria-label="{title}"' in seed, title
    assert "throttle trip 109.0 °C" in seed
    assert "<title>first of 238 alerts</title>" in seed
    small = render(load(EVIDENCE / "sim-small"))["report.html"]
    assert 'aria-label="Agentic turns, 2 sessions"' in small
    assert small.count("<title>C needle-16384-warm</title>") == 2, "a band in both pictures over time"
    assert "<title>last of 3 alerts</title>" in small


def test_a_picture_with_nothing_to_show_is_not_there(sim_small: Path) -> None:
    shutil.rmtree(sim_small / "telemetry")
    source = render(load(sim_small))["report.html"]
    assert 'aria-label="Temperature"' not in source
    assert 'aria-label="Cold prefill"' in source


def test_hostile_words_stay_words(sim_small: Path) -> None:
    for path in [sim_small / "spike.json", *sim_small.glob("results*/*.json")]:
        raw = path.read_text(encoding="utf-8")
        try:
            content = json.loads(raw)
        except ValueError:
            continue
        hostile = '"><script>alert(1)</script><img src=x onerror=alert(1)>{{ 7*7 }}</title>'
        for arm in content.get("arms", []):
            arm["title"] = hostile
        content["notes"] = [hostile]
        if isinstance(content.get("summary"), dict):
            content["summary"]["answer"] = hostile
        content["reason"] = hostile
        path.write_text(json.dumps(content), encoding="utf-8")
    source = render(load(sim_small))["report.html"]
    page = Page(source)
    assert page.open == []
    assert not page.tags & {"script", "img"}
    assert "49" not in re.findall(r"onerror=alert\(1\)&gt;(.{0,12})", source)
    assert "alert(1)" in page.words
