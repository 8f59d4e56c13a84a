"""Laws of the manual task."""

import pytest

from stages.tasks.manual import ManualTask
from tests.support.corpora import document


def page(name: str, summary: str, lang: str, domain: str = "manual"):
    return document(f"{name} {summary}", lang=lang, domain=domain, meta={"name": name, "summary": summary})


@pytest.mark.parametrize(("lang", "summary"), [("en", "list files"), ("zh", "列出文件")])
def test_the_answer_is_the_summary_and_stands_in_the_question(lang, summary):
    (item,) = ManualTask().build([page("ls", summary, lang)])
    assert item.messages[0].content.startswith(f"ls - {summary}\n\n")
    assert (item.lang, item.check.answer, item.check.kind) == (lang, summary, "exact")


@pytest.mark.parametrize(
    "other",
    [
        page("", "list files", "en"),
        page("ls", "", "en"),
        page("ls", "x" * 61, "en"),
        page("ls", "list files", "zh"),
        page("ls", "列出文件", "en"),
        page("ls", "list files", "en", domain="doc"),
        document("a page without a NAME line", lang="en", domain="manual"),
    ],
)
def test_a_page_without_a_short_summary_in_its_own_language_is_not_asked_about(other):
    assert list(ManualTask().build([other])) == []
