"""Laws of the repetition filter."""

import pytest

from stages.filters.repetition import RepetitionFilter
from tests.support.corpora import CHINESE, CODE, ENGLISH, document


@pytest.mark.parametrize("text", ["", ENGLISH, CHINESE, CODE.format(1)])
def test_ordinary_text_passes(text):
    assert RepetitionFilter().reject_reason(document(text)) is None


@pytest.mark.parametrize("line", ["The same line again and again.", "同样的一行。"])
def test_the_same_line_more_than_twice_is_rejected(line):
    rejected = RepetitionFilter().reject_reason(document(f"{line}\n" * 3))
    assert rejected == "more_than_max_duplicate_lines"
    assert RepetitionFilter().reject_reason(document(f"{line}\n" * 2)) is None


def test_one_long_line_that_repeats_itself_is_rejected():
    text = "exactly twenty chars" * 30
    assert RepetitionFilter().reject_reason(document(text)) == "more_than_max_repeated_grams"


def test_the_config_sets_the_limits():
    lenient = RepetitionFilter(max_duplicate_line_ratio=1.0, max_repeated_gram_ratio=1.0)
    assert lenient.reject_reason(document("same\n" * 99)) is None
