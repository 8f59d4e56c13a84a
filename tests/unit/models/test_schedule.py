from itertools import pairwise

import pytest

from models.schedule import BalanceRateSchedule, ConstantSchedule, CosineSchedule


def test_the_warm_up_is_linear_and_the_cosine_ends_at_the_minimum_and_stays_there():
    schedule = CosineSchedule(warmup_tokens=100, total_tokens=1100, min_ratio=0.1)
    assert schedule.factor(0) == 0.0
    assert schedule.factor(50) == 0.5
    assert schedule.factor(100) == 1.0
    assert schedule.factor(600) == pytest.approx(0.55)
    assert schedule.factor(1100) == pytest.approx(0.1)
    assert schedule.factor(9999) == pytest.approx(0.1)


def test_the_cosine_never_rises_after_the_warm_up():
    schedule = CosineSchedule(warmup_tokens=7, total_tokens=331)
    factors = [schedule.factor(tokens) for tokens in range(7, 400)]
    assert all(later <= earlier for earlier, later in pairwise(factors))


def test_a_schedule_depends_on_tokens_and_not_on_how_steps_cut_them():
    schedule = CosineSchedule(warmup_tokens=64, total_tokens=1024)
    assert [schedule.factor(64 * n) for n in range(1, 17)][3::4] == [schedule.factor(256 * n) for n in range(1, 5)]


def test_a_constant_schedule_is_one_after_its_warm_up():
    schedule = ConstantSchedule(warmup_tokens=10)
    assert (schedule.factor(5), schedule.factor(10), schedule.factor(99)) == (0.5, 1.0, 1.0)


def test_the_balance_rate_is_on_and_then_off():
    schedule = BalanceRateSchedule(rate=1e-3, active_tokens=100)
    assert (schedule.at(100), schedule.at(101)) == (1e-3, 0.0)


def test_a_warm_up_as_long_as_the_training_is_refused():
    with pytest.raises(ValueError, match=r"warmup_tokens: want 0\.\.total_tokens - 1 \(9\), got 10"):
        CosineSchedule(warmup_tokens=10, total_tokens=10)


def test_a_minimum_above_the_peak_is_refused():
    with pytest.raises(ValueError, match=r"min_ratio: want 0\.\.1, got 2"):
        CosineSchedule(warmup_tokens=0, total_tokens=10, min_ratio=2.0)
