"""Laws of the release gates."""

import math
from dataclasses import replace

import pytest

from infra.errors import BadSpecError
from stages.evaluation_file import EvaluatedModel
from stages.gates import (
    GateThresholds,
    RewardModelQuality,
    agreement,
    judge,
    paired_gain,
    tasks_above_constant,
)
from tests.support.evaluated_models import NUM_ITEMS, all_evaluated

LIMITS = GateThresholds()
GOOD = RewardModelQuality(accuracy=0.7, length_baseline_accuracy=0.55)
GUESSING = RewardModelQuality(accuracy=0.6, length_baseline_accuracy=0.55)


def with_metrics(model: EvaluatedModel, **changes: float) -> EvaluatedModel:
    metrics = model.about.metrics | {f"eval/{name}": value for name, value in changes.items()}
    return replace(model, about=model.about.model_copy(update={"metrics": metrics}))


def failed(models: dict[str, EvaluatedModel], reward_model: RewardModelQuality = GOOD, limits=LIMITS) -> set[str]:
    return {gate.name for gate in judge(limits, models, reward_model) if not gate.passed}


def test_a_model_that_keeps_every_bound_passes():
    assert failed(all_evaluated()) == set()


@pytest.mark.parametrize(
    ("name", "changes", "gate"),
    [
        ("base", {"bits_per_byte": 2.0}, "pretraining_beats_unigram"),
        ("base", {"instruction_accuracy": 0.41}, "sft_accuracy_gain"),
        ("sft", {"instruction_accuracy/heading/en": 0.12}, "tasks_above_constant"),
        ("int8", {"perplexity": 33.17}, "int8_perplexity_cost"),
        ("int4", {"perplexity": 35.7}, "int4_perplexity_cost"),
        ("int8", {"instruction_accuracy": 0.56}, "int8_accuracy_drop"),
        ("int4", {"instruction_accuracy": 0.49}, "int4_accuracy_drop"),
    ],
)
def test_each_bound_has_its_gate(name: str, changes: dict[str, float], gate: str):
    models = all_evaluated()
    assert failed(models | {name: with_metrics(models[name], **changes)}) == {gate}


def test_a_reward_model_that_guesses_fails():
    assert failed(all_evaluated(), GUESSING) == {"reward_model_accuracy"}


def test_a_reward_model_that_only_counts_tokens_fails():
    by_length = RewardModelQuality(accuracy=0.7, length_baseline_accuracy=0.7)
    assert failed(all_evaluated(), by_length) == {"reward_model_beats_length"}


def test_ppo_fails_when_its_gain_is_noise_or_accuracy_is_lost():
    models = all_evaluated()
    noisy = {
        item: value + (10 if index % 2 else -10)
        for index, (item, value) in enumerate(models["ppo"].items["reward"].items())
    }
    assert failed(models | {"ppo": replace(models["ppo"], items={**models["ppo"].items, "reward": noisy})}) == {
        "ppo_reward_gain"
    }
    worse = {item: float(int(item[1:]) < 130) for item in models["ppo"].items["is_correct"]}
    assert failed(models | {"ppo": replace(models["ppo"], items={**models["ppo"].items, "is_correct": worse})}) == {
        "ppo_keeps_accuracy"
    }


def test_a_verdict_says_what_was_wanted_and_what_was_found():
    gate = next(g for g in judge(LIMITS, all_evaluated(), GUESSING) if g.name == "reward_model_accuracy")
    assert gate.reason.startswith("reward_model_accuracy failed: want at least 0.65, got 0.6 (")


def test_a_paired_comparison_sees_what_an_unpaired_one_does_not():
    before = {str(i): float(i) for i in range(100)}
    after = {key: value + 1 for key, value in before.items()}
    assert paired_gain(after, before) == (1.0, 0.0)
    gain, stderr = paired_gain({"a": 1.0, "b": 4.0}, {"a": 0.0, "b": 1.0})
    assert (gain, stderr) == (2.0, math.sqrt(2) / math.sqrt(2))


def test_arithmetic_and_small_tasks_do_not_count():
    model = all_evaluated()["sft"]
    assert tasks_above_constant(LIMITS, model) == ("heading/en", "purpose/zh")
    small = with_metrics(model, **{"instruction_items/heading/en": 199.0})
    assert tasks_above_constant(LIMITS, small) == ("purpose/zh",)


def test_agreement_is_the_share_of_equal_answers():
    models = all_evaluated()
    assert agreement(models["ppo"], models["ppo"]) == 1
    assert agreement(models["ppo"], models["int4"]) == pytest.approx(171 / NUM_ITEMS)


@pytest.mark.parametrize("field", ["tokenizer_sha256", "template_sha256", "reward_model"])
def test_figures_made_differently_are_not_compared(field: str):
    models = all_evaluated()
    other = replace(models["int4"], about=models["int4"].about.model_copy(update={field: "x" * 64}))
    with pytest.raises(BadSpecError, match=f"want one {field} for all models"):
        judge(LIMITS, models | {"int4": other}, GOOD)


def test_other_items_are_not_compared():
    models = all_evaluated()
    fewer = replace(models["sft"], items={**models["sft"].items, "reward": {"i000": 1.0}})
    with pytest.raises(BadSpecError, match="want the same items of reward for all models"):
        judge(LIMITS, models | {"sft": fewer}, GOOD)


def test_a_figure_that_was_not_measured_is_refused_by_name():
    models = all_evaluated()
    about = models["base"].about.model_copy(update={"metrics": {}})
    with pytest.raises(BadSpecError, match="want the metric 'eval/unigram_bits_per_byte', got none"):
        judge(LIMITS, models | {"base": replace(models["base"], about=about)}, GOOD)


def test_a_policy_that_did_not_change_has_no_gain():
    models = all_evaluated()
    same = replace(models["sft"], about=models["ppo"].about)
    assert "ppo_reward_gain" in failed(models | {"ppo": same})
