"""Laws of the unbroken-run filter."""

import pytest

from stages.filters.lines import LinesFilter
from tests.support.corpora import document

FILTER = LinesFilter(max_unbroken_chars=10)


@pytest.mark.parametrize(
    "text", ["", "0123456789", "0123456789 0123456789", "0123456789\n0123456789", "一二三四五。" * 9]
)
def test_text_with_breaks_passes(text):
    assert FILTER.reject_reason(document(text)) is None


@pytest.mark.parametrize("text", ["x" * 11, "short then " + "y" * 11, "字" * 11])
def test_a_run_longer_than_the_limit_is_rejected(text):
    assert FILTER.reject_reason(document(text)) == "longer_than_max_unbroken"
