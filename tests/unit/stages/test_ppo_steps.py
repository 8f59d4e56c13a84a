from typing import Literal

import pytest
import torch

from models.export import load_model, load_reward_model
from models.ppo_loss import ActorCritic, Conversations
from models.tokenizer import ChatTemplate, load_tokenizer
from stages.ppo import STAGE, PpoConfig, Sampling
from stages.ppo_steps import PpoSteps
from stages.rewards.base import Reward, RewardTools
from stages.rewards.reward_model import RewardModelScore
from tests.support.tiny_alignment import context
from tests.support.tiny_release import instructions, write_model, write_reward_model


class FirstIsBetter(Reward):
    """Tells the two samples of the first prompt apart, and no others."""

    kind: Literal["first"] = "first"

    def rewards(self, answers, tools):
        return [1.0, *[0.0] * (len(answers) - 1)]


CONFIG = PpoConfig(
    epochs=2,
    steps_per_epoch=2,
    micro_batch_size=4,
    sampling=Sampling(prompts_per_iteration=8, samples_per_prompt=2, max_new_tokens=4),
    rewards=(RewardModelScore(),),
    sft_batch_size=3,
    max_kl=50.0,
)


def steps(root, **changes):
    model_dir, reward_dir = write_model(root / "model"), write_reward_model(root / "reward")
    tools = RewardTools(ChatTemplate(load_tokenizer(model_dir)), load_reward_model(reward_dir))
    return PpoSteps(
        CONFIG.model_copy(update=changes),
        ActorCritic(load_model(model_dir), load_reward_model(reward_dir)),
        load_model(model_dir),
        instructions(20, "train"),
        tools,
        context(root, "a", STAGE),
    )


def test_every_epoch_walks_through_every_answer_once(tmp_path):
    made = steps(tmp_path, sft_loss_weight=0.0)
    parts = [[part.part for part in made.micro_batches_at(step)] for step in range(4)]
    first, second = parts[0] + parts[1], parts[2] + parts[3]
    assert {id(rollout) for rollout in first} == {id(rollout) for rollout in second}
    assert sum(len(rollout.reward_B) for rollout in first) == 16  # no two samples of a prompt are worth the same here
    rewards = torch.cat([rollout.reward_B for rollout in first])
    torch.testing.assert_close(rewards.sum(), torch.tensor(0.0), atol=1e-5, rtol=0)


def test_prompts_whose_answers_are_worth_the_same_are_left_out(tmp_path):
    made = steps(tmp_path, sft_loss_weight=0.0, rewards=(FirstIsBetter(),))
    parts = made.micro_batches_at(0) + made.micro_batches_at(1)
    rewards = torch.cat([part.part.reward_B for part in parts])
    # one micro-batch for two steps: it is used in both
    assert sorted(rewards.tolist()) == [-0.5, -0.5, 0.5, 0.5]


def test_the_rate_rises_once_and_ends_low(tmp_path):
    made = steps(tmp_path, iterations=10, warmup_ratio=0.1, min_learning_rate_ratio=0.05)
    factors = []
    for step in range(made.num_steps):
        made._step = step
        factors.append(made.factor(10**9))
    peak = factors.index(max(factors))
    assert factors[: peak + 1] == sorted(factors[: peak + 1])
    assert factors[peak:] == sorted(factors[peak:], reverse=True)
    assert (peak, factors[peak], round(factors[-1], 6)) == (3, 1.0, 0.05)


def test_a_steps_micro_batches_share_its_token_count_and_bring_sft_conversations(tmp_path):
    parts = steps(tmp_path).micro_batches_at(0)
    *rollouts, conversations = [part.part for part in parts]
    assert isinstance(conversations, Conversations)
    assert len(conversations.input_ids_BL) == 3
    assert {part.num_step_tokens for part in parts} == {sum(one.tokens.num_answer_tokens for one in rollouts)}


def test_the_next_iteration_samples_from_the_updated_policy(tmp_path):
    made = steps(tmp_path, sft_loss_weight=0.0)
    for step in range(4):
        made.micro_batches_at(step)
    with torch.no_grad():
        made.networks.policy.lm_head.weight.mul_(1.5)
    assert any(bool(part.part.kl_BT.any()) for part in made.micro_batches_at(4))


def test_a_policy_that_only_stops_is_refused(tmp_path):
    made = steps(tmp_path)
    policy, end_id = made.networks.policy, made.tools.template.end_id
    reference = made.reference
    for network in (policy, reference):  # the end token gets all the probability
        network.forward = _always(network.forward, end_id)
    with pytest.raises(RuntimeError, match="step 1: want answers, got 100% empty ones"):
        made.micro_batches_at(0)


def _always(forward, token_id):
    def forced(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits[..., token_id] = 1e4
        return output

    return forced
