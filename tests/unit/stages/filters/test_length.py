"""Laws of the length filter."""

import pytest

from stages.filters.length import LengthFilter
from tests.support.corpora import document

FILTER = LengthFilter(min_bytes=6, max_bytes=9)


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("12345", "fewer_than_min_bytes"),
        ("123456", None),
        ("123456789", None),
        ("1234567890", "more_than_max_bytes"),
        ("好", "fewer_than_min_bytes"),
        ("好的", None),
        ("好的好的", "more_than_max_bytes"),
        ("", "fewer_than_min_bytes"),
    ],
)
def test_bounds_are_in_utf8_bytes_and_inclusive(text, reason):
    assert FILTER.reject_reason(document(text)) == reason
