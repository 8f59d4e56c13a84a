import pytest
import torch

from models.export import load_model, load_reward_model
from models.ppo_loss import ActorCritic, Conversations
from models.tokenizer import ChatTemplate, load_tokenizer
from stages.ppo import STAGE, PpoConfig, Sampling
from stages.ppo_steps import PpoSteps
from stages.rewards.base import RewardTools
from stages.rewards.reward_model import RewardModelScore
from tests.support.tiny_alignment import context
from tests.support.tiny_release import instructions, write_model, write_reward_model

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
    assert sum(len(rollout.reward_B) for rollout in first) == 16


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
    with pytest.raises(RuntimeError, match="iteration 0: want answers, got 100% empty ones"):
        made.micro_batches_at(0)


def _always(forward, token_id):
    def forced(*args, **kwargs):
        output = forward(*args, **kwargs)
        output.logits[..., token_id] = 1e4
        return output

    return forced
