import pytest
import torch

from models.ppo_loss import (
    ActorCritic,
    PpoLoss,
    PpoLossConfig,
    PpoMicroBatch,
    build_ppo_optimizer,
    critic_of,
    pad_conversations,
)
from models.rollout import answer_values, evaluate_answers, pad_answers, with_advantages
from tests.support.tiny_glm import tiny_glm, tiny_reward_model

CONFIG = PpoLossConfig(clip_range=0.2, value_clip_range=0.5, value_loss_weight=0.5, sft_loss_weight=0.3)
ROWS = [
    {"input_ids": [5, 6, 7, 0], "labels": [-100, -100, 7, 0]},
    {"input_ids": [8, 9, 0], "labels": [-100, 9, 0]},
]


def networks():
    return ActorCritic(tiny_glm(), tiny_reward_model())


def rollouts(of):
    tokens = [
        pad_answers([[5, 6], [7, 8, 9]], [[10, 0], [11, 12, 0]], pad_id=0, device="cpu"),
        pad_answers([[15, 16]], [[20, 22, 23]], pad_id=0, device="cpu"),
    ]
    rewards = torch.tensor([1.0, -1.0]), torch.tensor([0.5])
    made = [
        evaluate_answers(of.policy, of.critic, tiny_glm(), part, reward)
        for part, reward in zip(tokens, rewards, strict=True)
    ]
    return with_advantages(made, kl_coef=0.1, gamma=1.0, lam=0.95)


def test_the_first_step_has_ratio_one_no_clipping_and_no_kl():
    both = networks()
    for rollout in rollouts(both):
        metrics = PpoLoss(both, CONFIG)(PpoMicroBatch(rollout, 8)).metrics
        assert (metrics["ratio_error"], metrics["clip_fraction"], metrics["approx_kl"]) == (0.0, 0.0, 0.0)


def test_a_step_raises_the_advantage_weighted_log_probability():
    both = networks()
    parts = [PpoMicroBatch(rollout, 8) for rollout in rollouts(both)]
    loss_of, optimizer = (
        PpoLoss(both, CONFIG),
        build_ppo_optimizer(both, policy_learning_rate=1e-4, critic_learning_rate=1e-4),
    )
    before = [loss_of(part) for part in parts]
    optimizer.set_lr_factor(1.0)
    for step_loss in before:
        step_loss.loss.backward()
    optimizer.step()
    after = [loss_of(part) for part in parts]
    for name in ("policy_loss", "value_loss"):
        assert sum(one.metrics[name] for one in after) < sum(one.metrics[name] for one in before)


def test_the_sft_loss_is_the_mean_over_supervised_tokens_of_the_policy_alone():
    both = networks()
    batch = pad_conversations(ROWS, pad_id=0)
    result = PpoLoss(both, CONFIG)(PpoMicroBatch(batch, 8))
    expected = both.policy(input_ids=batch.input_ids_BL, attention_mask=batch.is_real_BL, labels=batch.labels_BL).loss
    torch.testing.assert_close(result.loss, 0.3 * expected)
    assert result.metrics == {"sft_loss": pytest.approx(expected.item())}
    result.loss.backward()
    assert all(param.grad is None for param in both.critic.parameters())


def test_conversations_are_padded_without_supervision():
    batch = pad_conversations(ROWS, pad_id=3)
    assert batch.input_ids_BL.tolist() == [[5, 6, 7, 0], [8, 9, 0, 3]]
    assert batch.is_real_BL.tolist() == [[True] * 4, [True] * 3 + [False]]
    assert batch.labels_BL.tolist() == [[-100, -100, 7, 0], [-100, 9, 0, -100]]


def test_policy_and_critic_learn_at_their_own_rates():
    both = networks()
    optimizer = build_ppo_optimizer(both, policy_learning_rate=1e-4, critic_learning_rate=1e-2)
    rate_of = {id(p): group["peak_lr"] for group in optimizer.param_groups for p in group["params"]}
    assert {rate_of[id(p)] for p in both.policy.parameters()} == {1e-4}
    assert {rate_of[id(p)] for p in both.critic.parameters()} == {1e-2}


def test_a_critic_starts_from_the_reward_models_backbone_and_values_everything_at_zero():
    scorer = tiny_reward_model()
    critic = critic_of(tiny_reward_model())
    assert all(torch.equal(a, b) for a, b in zip(critic.model.parameters(), scorer.model.parameters(), strict=True))
    tokens = pad_answers([[5, 6, 7]], [[8, 9]], pad_id=0, device="cpu")
    assert not answer_values(critic, tokens).any() and answer_values(scorer, tokens).any()
