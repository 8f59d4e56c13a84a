"""Laws of the language task."""

from collections import Counter
from dataclasses import replace

from stages.tasks.language import LanguageTask
from tests.support.corpora import mixed_documents

LANGUAGES = {"doc": "en", "review": "zh", "code": "code"}
DOCUMENTS = [replace(d, lang=LANGUAGES[d.domain]) for d in mixed_documents(40)]
KINDS = {"English": "en", "Chinese": "zh", "英文": "en", "中文": "zh", "代码": "code", "code": "code"}


def test_the_answer_names_the_documents_language_in_the_questions_language():
    language_of = {d.id: d.lang for d in DOCUMENTS}
    items = list(LanguageTask().build(DOCUMENTS))
    for item in items:
        assert KINDS[item.check.answer] == language_of[item.doc_id]
        assert item.check.answer.isascii() == (item.lang == "en")
    assert {item.lang for item in items} == {"en", "zh"}


def test_the_three_kinds_are_equally_frequent_whatever_the_corpus():
    counts = Counter(KINDS[item.check.answer] for item in LanguageTask().build(DOCUMENTS[10:]))
    assert set(counts.values()) == {30}


def test_a_corpus_without_one_of_them_gives_nothing():
    assert list(LanguageTask().build([d for d in DOCUMENTS if d.lang != "code"])) == []
