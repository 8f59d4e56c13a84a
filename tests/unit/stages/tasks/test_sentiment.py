"""Laws of the sentiment task."""

import pytest

from stages.tasks.sentiment import SentimentTask
from tests.support.corpora import CHINESE, document


@pytest.mark.parametrize(("label", "answer"), [("positive", "正面"), ("negative", "负面")])
def test_the_answer_is_the_label_and_the_review_stands_in_the_question(label, answer):
    review = document(CHINESE, lang="zh", domain="review", meta={"label": label})
    (item,) = SentimentTask().build([review])
    assert (item.check.answer, item.lang, item.doc_id) == (answer, "zh", review.id)
    assert CHINESE in item.messages[0].content


@pytest.mark.parametrize(
    "fields",
    [
        {"lang": "en", "domain": "review", "meta": {"label": "positive"}},
        {"lang": "zh", "domain": "doc", "meta": {"label": "positive"}},
        {"lang": "zh", "domain": "review", "meta": {"label": "mixed"}},
        {"lang": "zh", "domain": "review", "meta": {}},
    ],
)
def test_other_documents_are_not_asked_about(fields):
    assert list(SentimentTask().build([document(CHINESE, **fields)])) == []
