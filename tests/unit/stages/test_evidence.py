"""Only what was measured alike is compared, item by item."""

import math
from dataclasses import replace

import pytest

from infra.errors import BadSpecError
from stages.evidence import agreement, paired_gain
from tests.support.evaluated_models import NUM_ITEMS, all_evaluated, evaluated, evidence, with_items


def test_a_paired_comparison_sees_what_an_unpaired_one_does_not():
    before = {str(i): float(i) for i in range(100)}
    after = {key: value + 1 for key, value in before.items()}
    assert paired_gain(after, before) == (1.0, 0.0)
    gain, stderr = paired_gain({"a": 1.0, "b": 4.0}, {"a": 0.0, "b": 1.0})
    assert (gain, stderr) == (2.0, math.sqrt(2) / math.sqrt(2))


def test_agreement_is_the_share_of_equal_answers():
    models = all_evaluated()
    assert agreement(models["ppo"], models["ppo"]) == 1
    assert agreement(models["ppo"], models["int4"]) == pytest.approx(171 / NUM_ITEMS)


@pytest.mark.parametrize("field", ["tokenizer_sha256", "template_sha256", "reward_model"])
def test_figures_made_differently_are_not_compared(field: str):
    int4 = evaluated("int4")
    other = replace(int4, about=int4.about.model_copy(update={field: "x" * 64}))
    with pytest.raises(BadSpecError, match=f"want one {field} for all models"):
        evidence(int4=other)


def test_other_items_are_not_compared():
    with pytest.raises(BadSpecError, match="want the same items of reward for all models"):
        evidence(sft=with_items("sft", reward={"i000": 1.0}))
