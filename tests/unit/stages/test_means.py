"""Laws of means and their standard errors."""

import random
import statistics

import pytest

from stages.means import mean_and_stderr


def test_the_standard_error_is_that_of_a_mean():
    assert mean_and_stderr([1.0, 2.0, 3.0]) == (2.0, pytest.approx((1 / 3) ** 0.5))
    assert mean_and_stderr([4.0]) == (4.0, 0.0)


def test_it_agrees_with_the_standard_library():
    values = [random.Random(i).gauss(3, 2) for i in range(50)]
    mean, stderr = mean_and_stderr(values)
    assert mean == pytest.approx(statistics.fmean(values))
    assert stderr == pytest.approx(statistics.stdev(values) / 50**0.5)


def test_no_value_has_no_mean():
    with pytest.raises(ValueError, match="want at least one value, got none"):
        mean_and_stderr([])
