"""The platform's pages in a real browser (Debian's chromium), which reaches nothing but this machine."""

import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

SCREENSHOTS = Path(__file__).parents[2] / "build/screenshots"
TIMEOUT_MS = 60_000
FLAGS = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking",
    "--disable-component-update", "--disable-sync",
    "--host-resolver-rules=MAP * ~NOTFOUND, EXCLUDE 127.0.0.1, EXCLUDE localhost",
]  # fmt: skip


@contextmanager
def browser_page() -> Iterator[Any]:
    """A page of its own; the test is skipped, with the reason, where there is no browser."""
    api = pytest.importorskip("playwright.sync_api", reason="want playwright; `make setup` installs it")
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("want Debian's chromium; `apt-get install chromium fonts-dejavu-core`")
    with api.sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=FLAGS)
        page = browser.new_page(viewport={"width": 1400, "height": 1400})
        page.set_default_timeout(TIMEOUT_MS)
        try:
            yield page
        finally:
            keep(page, "last")
            browser.close()


def keep(page: Any, name: str) -> None:
    """A screenshot for people."""
    SCREENSHOTS.mkdir(parents=True, exist_ok=True)
    page.screenshot(path=SCREENSHOTS / f"{name}.png")


def field(page: Any, title: str) -> Any:
    """A form field by the title that it shows."""
    label = page.locator(".schema-form-property__label", has_text=re.compile(f"^{title} "))
    return page.locator(".schema-form-property", has=label).last


def choose(page: Any, title: str, value: str) -> None:
    """Pick from a list. The keyboard opens it: a click on a list that gets the focus closes it again."""
    field(page, title).locator("button.p-select-button__control").press("Space")
    page.locator(".p-select-option", has_text=re.compile(rf"^\s*{value}\s*$")).click()


def fill_number(page: Any, title: str, value: str) -> None:
    """Give an optional number a value."""
    number = field(page, title)
    if not number.locator("input").count():
        number.get_by_role("button", name="int").click()
    number.locator("input").fill(value)


def submit(page: Any) -> None:
    """Send the form."""
    page.get_by_role("button", name="Submit").click()
