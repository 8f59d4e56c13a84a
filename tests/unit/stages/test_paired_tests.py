"""Paired tests: equal to an independent computation, symmetric, and blind to what both models share."""

import itertools
import math

import numpy as np
import pytest

from stages.paired_tests import compare_accuracy, compare_bits, sign_flip_p_value


def items(values) -> dict[str, float]:
    return {f"i{index}": float(value) for index, value in enumerate(values)}


def swapped_p(one, other) -> tuple[float, float]:
    return compare_accuracy(one, other).p_value, compare_accuracy(other, one).p_value


def test_mcnemar_is_a_fair_coin_over_the_items_that_changed():
    champion, challenger = items([1] * 50 + [0] * 12 + [1] * 3), items([1] * 50 + [1] * 12 + [0] * 3)
    found = compare_accuracy(champion, challenger)
    assert (found.num_items, found.num_better, found.num_worse) == (65, 12, 3)
    tail = sum(math.comb(15, k) for k in range(4)) / 2**15
    assert found.p_value == pytest.approx(2 * tail)
    assert (found.outcome(0.05), found.gain) == ("better", pytest.approx(9 / 65))
    assert compare_accuracy(challenger, champion).outcome(0.05) == "worse"
    assert swapped_p(champion, challenger)[0] == pytest.approx(swapped_p(champion, challenger)[1])


def test_items_on_which_both_agree_change_no_p_value():
    few = compare_accuracy(items([0, 0, 1]), items([1, 1, 1])).p_value
    many = compare_accuracy(items([0, 0, 1] + [1] * 500), items([1, 1, 1] + [1] * 500)).p_value
    assert few == many == 0.5


def test_the_permutation_test_is_exact_where_all_signs_can_be_tried():
    differences = np.array([3.0, -1.0, 2.0, 0.5, 4.0])
    means = [np.mean(differences * signs) for signs in itertools.product((1, -1), repeat=5)]
    larger = sum(abs(mean) >= abs(differences.mean()) - 1e-12 for mean in means)
    assert sign_flip_p_value(differences) == pytest.approx(larger / 32)


def test_equal_models_have_no_difference():
    same = items([4.0, 5.0])
    found = compare_bits(same, same, {"i0": 2, "i1": 3})
    assert (found.p_value, found.gain, found.outcome(0.05)) == (1.0, 0.0, "no difference")
    assert compare_accuracy(items([1, 0]), items([1, 0])).outcome(0.05) == "no difference"


def test_bits_are_compared_a_byte_and_fewer_are_better():
    rng = np.random.default_rng(0)
    before = rng.uniform(50, 100, 200)
    after = before * 0.97 + rng.normal(0, 1, 200)
    num_bytes = {f"i{index}": 10 for index in range(200)}
    found = compare_bits(items(before), items(after), num_bytes)
    assert found.champion == pytest.approx(before.sum() / 2000)
    assert found.challenger == pytest.approx(after.sum() / 2000)
    assert found.outcome(0.05) == "better" and found.p_value < 0.001
    assert compare_bits(items(after), items(before), num_bytes).outcome(0.05) == "worse"


@pytest.mark.parametrize("seed", range(3))
def test_noise_is_no_improvement(seed: int):
    rng = np.random.default_rng(seed)
    before = rng.uniform(50, 100, 100)
    found = compare_bits(items(before), items(before + rng.normal(0, 1, 100)), {f"i{i}": 10 for i in range(100)})
    assert found.outcome(0.01) == "no difference"
