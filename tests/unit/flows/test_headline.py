"""Figures as people read them."""

import pytest

from flows.headline import HeadlineValue, short_bytes, short_duration, short_number
from stages.contract import Headline
from tests.support.lifecycle_records import record


@pytest.mark.parametrize(
    ("value", "text"),
    [(26609, "26,609"), (0.123456, "0.1235"), (3.0, "3"), (12345.6, "12,346"), (1e-9, "1e-09"), (-0.5, "-0.5")],
)
def test_numbers_have_four_digits_and_counts_have_all(value: float, text: str):
    assert short_number(value) == text


def test_sizes_and_durations_have_the_unit_that_fits():
    assert [short_bytes(n) for n in (17, 2048, 3 << 20, 5 << 30)] == ["17 B", "2.0 KiB", "3.0 MiB", "5.00 GiB"]
    assert [short_duration(s) for s in (0.04, 37.4, 312)] == ["0.0 s", "37 s", "5 min 12 s"]


def test_a_headline_reads_before_and_after_and_is_empty_where_nothing_was_logged():
    stage_record = record("pretrain", "model", {"a/before": 2.5, "a/after": 1.25})
    headline = Headline("bits per byte", before="a/before", after="a/after")
    assert str(HeadlineValue.of(headline, stage_record)) == "bits per byte 2.5 -> 1.25"
    assert str(HeadlineValue.of(Headline("loss", after="a/after"), stage_record)) == "loss 1.25"
    assert str(HeadlineValue.of(Headline("loss", after="a/none"), stage_record)) == ""
