import math
from typing import Literal

import pytest

from models.export import load_model, load_reward_model
from models.tokenizer import ChatTemplate, load_tokenizer
from stages.policy_quality import paired_gain, quality_of, total_rewards
from stages.ppo import PpoConfig, Sampling
from stages.rewards.answer_check import AnswerCheck
from stages.rewards.base import Answer, Reward, RewardTools
from tests.support.tiny_release import instructions, write_model, write_reward_model


class Fixed(Reward):
    """Always these numbers."""

    kind: Literal["fixed"] = "fixed"
    values: tuple[float, ...]

    def rewards(self, answers, tools):
        return list(self.values)


def test_the_total_is_the_weighted_sum():
    answers = [Answer(one, one.check.answer, ended=True) for one in instructions(2, "x")]
    rewards = (AnswerCheck(weight=0.5), Fixed(values=(3.0, -1.0), weight=2.0))
    assert total_rewards(answers, rewards, None) == [6.5, -1.5]


@pytest.mark.parametrize(("values", "got"), [((math.nan, 1.0), "nan"), ((1.0,), "1 numbers")])
def test_a_reward_that_fails_is_named_and_never_counted_as_zero(values, got):
    answers = [Answer(one, "a", ended=True) for one in instructions(2, "x")]
    with pytest.raises(RuntimeError, match=f"reward fixed: want 2 finite numbers, got {got}"):
        total_rewards(answers, (Fixed(values=values),), None)


def test_a_policy_compared_with_itself_gains_exactly_nothing(tmp_path):
    model_dir = write_model(tmp_path / "model")
    tools = RewardTools(
        ChatTemplate(load_tokenizer(model_dir)), load_reward_model(write_reward_model(tmp_path / "reward"))
    )
    config = PpoConfig(num_heldout_prompts=6, sampling=Sampling(max_new_tokens=4))
    first, second = (quality_of(load_model(model_dir), instructions(9, "h"), config, tools, seed=3) for _ in "ab")
    assert first == second
    assert len(first.sampled_rewards) == len(first.greedy_rewards) == 6
    assert paired_gain(first.sampled_rewards, second.sampled_rewards) == (0.0, 0.0)


def test_the_paired_gain_ignores_what_both_policies_share():
    before, after = [0.0, 10.0, 20.0], [1.0, 12.0, 21.0]
    mean, standard_error = paired_gain(before, after)
    assert mean == pytest.approx(4 / 3)
    assert standard_error == pytest.approx(1 / 3)
    assert paired_gain([1.0], [2.0]) == (1.0, 0.0)
