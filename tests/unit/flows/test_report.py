"""Laws of the report page."""

import re
from html.parser import HTMLParser
from pathlib import Path

from flows.report import write_report
from tests.support.lifecycle_records import histories, lifecycle, records

VOID = {"meta", "br", "link", "img"}


class Balance(HTMLParser):
    """Fails on an element that is closed out of order."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []

    def handle_starttag(self, tag, attrs):
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        pass

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def page(tmp_path: Path) -> str:
    path = tmp_path / "reports" / "report.html"
    write_report(lifecycle(), records(), histories(), path)
    assert [p.name for p in path.parent.iterdir()] == ["report.html"]
    return path.read_text()


def test_the_page_is_self_contained(tmp_path: Path):
    text = page(tmp_path)
    assert not re.search(r"(?i)https?://|<script|<link|<img|@import|url\(", text)
    assert "default-src 'none'" in text


def test_every_element_is_closed(tmp_path: Path):
    parser = Balance()
    parser.feed(page(tmp_path))
    assert parser.open == []


def test_values_are_escaped(tmp_path: Path):
    assert "&lt;script&gt;" in page(tmp_path)


def test_the_same_run_gives_the_same_page(tmp_path: Path):
    assert page(tmp_path / "a") == page(tmp_path / "b")


def test_the_head_tells_the_verdict_and_the_main_figures(tmp_path: Path):
    text = page(tmp_path)
    assert "seed 7 \u00b7 finished \u00b7 started 2026-01-02 03:04 UTC \u00b7 took 812 s" in text
    assert '<b class="good">passed</b>' in text
    assert "instruction accuracy, final model" in text


def test_a_run_that_stopped_early_still_has_a_page(tmp_path: Path):
    first = {"clean": records()["clean"]}
    write_report(lifecycle("failed"), first, {}, tmp_path / "report.html")
    text = (tmp_path / "report.html").read_text()
    assert "failed" in text
    assert 'id="quality"' not in text
