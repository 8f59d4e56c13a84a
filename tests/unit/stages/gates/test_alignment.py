"""Each limit of alignment has its gate, and noise passes none."""

from dataclasses import replace

from stages.evidence import RewardModelQuality
from stages.gates.alignment import AlignmentGates
from tests.support.evaluated_models import evaluated, evidence, failed, with_items

GUESSING = RewardModelQuality(accuracy=0.6, length_baseline_accuracy=0.55)


def test_a_reward_model_that_guesses_fails():
    assert failed(evidence(GUESSING)) == {"reward_model_accuracy"}


def test_a_reward_model_that_only_counts_tokens_fails():
    by_length = RewardModelQuality(accuracy=0.7, length_baseline_accuracy=0.7)
    assert failed(evidence(by_length)) == {"reward_model_beats_length"}


def test_ppo_fails_when_its_gain_is_noise_or_accuracy_is_lost():
    ppo = evaluated("ppo")
    noisy = {
        item: value + (10 if index % 2 else -10) for index, (item, value) in enumerate(ppo.items["reward"].items())
    }
    assert failed(evidence(ppo=with_items("ppo", reward=noisy))) == {"ppo_reward_gain"}
    worse = {item: float(int(item[1:]) < 130) for item in ppo.items["is_correct"]}
    assert failed(evidence(ppo=with_items("ppo", is_correct=worse))) == {"ppo_keeps_accuracy"}


def test_a_policy_that_did_not_change_has_no_gain():
    same = replace(evaluated("sft"), about=evaluated("ppo").about)
    assert "ppo_reward_gain" in failed(evidence(ppo=same))


def test_a_verdict_says_what_was_wanted_and_what_was_found():
    gate = next(gate for gate in AlignmentGates().judge(evidence(GUESSING)) if not gate.passed)
    assert gate.reason.startswith("reward_model_accuracy failed: want at least 0.65, got 0.6 (")
