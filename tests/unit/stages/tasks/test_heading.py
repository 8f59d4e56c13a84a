"""Laws of the heading task."""

import re

from stages.tasks.heading import HeadingTask
from tests.support.corpora import document

TITLES = ("Installing", "Upgrading", "Removing", "Using it")
PAGE = [
    document(f"{title}\n====\n\nWhat to do for step {i}. " * 2, meta={"title": title, "file": "page.txt"})
    for i, title in enumerate(TITLES)
]


def test_the_answer_is_the_letter_of_the_documents_own_heading():
    items = list(HeadingTask().build(PAGE))
    assert [item.doc_id for item in items] == [d.id for d in PAGE]
    for item, page in zip(items, PAGE, strict=True):
        choices = dict(re.findall(r"^([A-D])\. (.+)$", item.messages[0].content, re.MULTILINE))
        assert choices[item.check.answer] == page.meta["title"]
        assert len(set(choices.values())) == 3
        assert set(choices.values()) <= set(TITLES)


def test_a_page_with_too_few_headings_is_not_asked_about():
    assert list(HeadingTask().build(PAGE[:2])) == []


def test_headings_of_another_page_are_no_choices():
    other = [document(d.text + ".", meta={"title": d.meta["title"], "file": "other.txt"}) for d in PAGE[2:]]
    assert list(HeadingTask().build([*PAGE[:2], *other])) == []


def test_other_domains_and_long_headings_are_left_out():
    long = [document(d.text, meta={"title": "long " * 20, "file": "page.txt"}) for d in PAGE]
    code = [document(d.text, domain="code", meta=d.meta) for d in PAGE]
    assert list(HeadingTask().build([*long, *code])) == []
