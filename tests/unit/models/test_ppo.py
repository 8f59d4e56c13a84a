import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.ppo import (
    entropy,
    explained_variance,
    gae,
    kl,
    masked_mean,
    policy_loss,
    relative_to_prompt,
    token_rewards,
    value_loss,
    whiten,
)

REWARDS, VALUES = torch.tensor([-0.1, -0.05, 0.9]), torch.tensor([0.2, 0.3, 0.4])


@pytest.mark.parametrize(("estimator", "expected"), [("k1", 0.5), ("k2", 0.125), ("k3", 0.106531)])
def test_kl_estimators_equal_the_golden_vector(estimator, expected):
    value = kl(torch.tensor([-1.0]), torch.tensor([-1.5]), estimator)
    torch.testing.assert_close(value, torch.tensor([expected]), atol=1e-6, rtol=0)


def test_kl_estimators_agree_with_the_exact_kl_on_average():
    policy = torch.randn(6, generator=torch.Generator().manual_seed(0)).double().log_softmax(-1)
    reference = (policy + 0.3 * torch.randn(6, generator=torch.Generator().manual_seed(1)).double()).log_softmax(-1)
    exact = (policy.exp() * (policy - reference)).sum()
    for estimator in ("k1", "k3"):
        torch.testing.assert_close((policy.exp() * kl(policy, reference, estimator)).sum(), exact)


def test_an_unknown_kl_estimator_is_refused():
    with pytest.raises(ValueError, match="estimator: want k1, k2 or k3, got 'k4'"):
        kl(REWARDS, REWARDS, "k4")


@pytest.mark.parametrize(("lam", "expected"), [(1.0, [0.55, 0.55, 0.5]), (0.95, [0.49875, 0.525, 0.5])])
def test_gae_equals_the_golden_vector(lam, expected):
    advantages, returns = gae(REWARDS, VALUES, 1.0, lam)
    torch.testing.assert_close(advantages, torch.tensor(expected))
    torch.testing.assert_close(returns, torch.tensor(expected) + VALUES)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(st.tuples(st.floats(-2, 2), st.floats(-2, 2)), min_size=1, max_size=8), st.floats(0, 1), st.floats(0, 1)
)
def test_gae_equals_the_naive_sum_of_discounted_errors(pairs, gamma, lam):
    rewards, values = (torch.tensor(column, dtype=torch.float64) for column in zip(*pairs, strict=True))
    after = torch.cat((values[1:], torch.zeros(1, dtype=torch.float64)))
    deltas = rewards + gamma * after - values
    naive = [sum((gamma * lam) ** (s - t) * deltas[s] for s in range(t, len(deltas))) for t in range(len(deltas))]
    torch.testing.assert_close(gae(rewards, values, gamma, lam)[0], torch.stack(naive))


def test_gae_of_a_padded_batch_equals_gae_of_each_answer():
    rewards, values = torch.zeros(2, 5), torch.zeros(2, 5)
    rewards[0, :3], values[0, :3] = REWARDS, VALUES
    rewards[1, :2], values[1, :2] = REWARDS[:2], VALUES[:2]
    advantages, _ = gae(rewards, values, 0.9, 0.8)
    assert torch.equal(advantages[0, :3], gae(REWARDS, VALUES, 0.9, 0.8)[0])
    assert torch.equal(advantages[1, :2], gae(REWARDS[:2], VALUES[:2], 0.9, 0.8)[0])
    assert not advantages[0, 3:].any()


def test_gae_refuses_a_reward_without_a_value():
    with pytest.raises(ValueError, match=r"want one shape \[..., T\], got \(3,\) and \(2,\)"):
        gae(REWARDS, VALUES[:2], 1.0, 1.0)


def test_the_first_step_has_ratio_exactly_one_and_the_plain_policy_gradient():
    old = torch.tensor([[-1.0, -2.0, -9.0]])
    logprobs = old.clone().requires_grad_()
    is_answer = torch.tensor([[True, True, False]])
    advantages = torch.tensor([[1.0, -3.0, 5.0]])
    result = policy_loss(logprobs, old, advantages, is_answer, clip_range=0.2, num_tokens=2)
    result.loss.backward()
    assert (result.ratio_error, result.approx_kl, result.clip_fraction) == (0.0, 0.0, 0.0)
    torch.testing.assert_close(logprobs.grad, torch.tensor([[-0.5, 1.5, 0.0]]))


def test_policy_loss_equals_numbers_computed_by_hand():
    ratio = torch.tensor([[1.5, 0.5, 1.5, 0.5]])
    advantages = torch.tensor([[1.0, 1.0, -1.0, -1.0]])
    logprobs = ratio.log().requires_grad_()
    result = policy_loss(
        logprobs, torch.zeros(1, 4), advantages, torch.ones(1, 4, dtype=torch.bool), clip_range=0.2, num_tokens=4
    )
    # min(1.5, 1.2) + min(.5, .8) + min(-1.5, -1.2) + min(-.5, -.8) = 1.2 + .5 - 1.5 - .8
    torch.testing.assert_close(result.loss.detach(), torch.tensor(0.6 / 4))
    assert result.clip_fraction == 0.5
    result.loss.backward()
    assert logprobs.grad.ne(0).tolist() == [[False, True, True, False]]


def test_padding_never_reaches_the_losses_even_when_it_overflows():
    is_answer = torch.tensor([[True, False]])
    logprobs = torch.tensor([[-1.0, 1000.0]], requires_grad=True)
    result = policy_loss(logprobs, torch.zeros(1, 2) - 1, torch.ones(1, 2), is_answer, clip_range=0.2, num_tokens=1)
    loss = result.loss + value_loss(
        logprobs, torch.zeros(1, 2), torch.tensor([[0.0, 9e9]]), is_answer, clip_range=1e9, num_tokens=1
    )
    loss.backward()
    assert logprobs.grad.isfinite().all()
    assert logprobs.grad[0, 1] == 0


def test_micro_batch_losses_add_up_to_the_loss_of_the_whole_batch():
    rng = torch.Generator().manual_seed(3)
    logprobs, old, advantages = (torch.randn(4, 3, generator=rng) for _ in range(3))
    is_answer = torch.tensor([[1, 1, 0], [1, 0, 0], [1, 1, 1], [1, 1, 1]]).bool()

    def loss(rows):
        return policy_loss(
            logprobs[rows], old[rows], advantages[rows], is_answer[rows], clip_range=0.2, num_tokens=9
        ).loss

    torch.testing.assert_close(loss(slice(0, 1)) + loss(slice(1, 4)), loss(slice(0, 4)))


def test_value_loss_takes_the_worse_of_the_plain_and_the_clipped_error():
    values, old, returns = torch.tensor([[1.0, 1.0]]), torch.tensor([[0.0, 0.0]]), torch.tensor([[1.0, 2.0]])
    loss = value_loss(values, old, returns, torch.ones(1, 2, dtype=torch.bool), clip_range=0.2, num_tokens=2)
    torch.testing.assert_close(loss, torch.tensor(0.5 * (0.8**2 + 1.8**2) / 2))


def test_the_reward_lands_on_the_last_answer_token_and_the_penalty_on_each():
    is_answer = torch.tensor([[False, True, True, False]])
    rewards = token_rewards(torch.tensor([2.0]), torch.tensor([[9.0, 0.5, 1.0, 9.0]]), is_answer, kl_coef=0.1)
    torch.testing.assert_close(rewards, torch.tensor([[0.0, -0.05, 1.9, 0.0]]))
    with pytest.raises(ValueError, match="want an answer token in every row"):
        token_rewards(torch.tensor([2.0]), torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool), kl_coef=0.1)


def test_whitened_advantages_have_mean_zero_and_variance_one_over_the_answers():
    is_answer = torch.tensor([[True, True, False], [True, False, False]])
    x = whiten(torch.tensor([[1.0, 2.0, 99.0], [6.0, 99.0, 99.0]]), is_answer)
    torch.testing.assert_close(masked_mean(x, is_answer), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(masked_mean(x.square(), is_answer), torch.tensor(1.0))
    assert not x[~is_answer].any()


def test_a_mean_over_nothing_is_refused():
    with pytest.raises(ValueError, match="want at least one token that counts"):
        masked_mean(torch.zeros(1, 2), torch.zeros(1, 2, dtype=torch.bool))


def test_explained_variance_is_one_for_a_perfect_critic_and_zero_for_a_constant_one():
    returns, is_answer = torch.tensor([[1.0, 2.0, 3.0]]), torch.ones(1, 3, dtype=torch.bool)
    assert explained_variance(returns, returns, is_answer) == 1.0
    assert explained_variance(torch.full((1, 3), 7.0), returns, is_answer) == pytest.approx(0.0)
    assert explained_variance(returns, torch.ones(1, 3), is_answer) == 0.0


def test_entropy_of_the_uniform_distribution_is_log_of_the_vocabulary():
    torch.testing.assert_close(entropy(torch.zeros(1, 1, 64)), torch.tensor([[64.0]]).log())


def test_a_prompts_level_does_not_reach_the_relative_rewards():
    rewards = torch.tensor([[1.0, 2.0, 6.0], [0.0, 0.0, 0.0]])
    relative, is_told_apart = relative_to_prompt(rewards)
    assert relative.tolist() == [[-2.0, -1.0, 3.0], [0.0, 0.0, 0.0]]
    assert is_told_apart.tolist() == [True, False]
    torch.testing.assert_close(relative_to_prompt(rewards + torch.tensor([[5.0], [-3.0]]))[0], relative)


def test_a_single_sample_keeps_its_reward():
    relative, is_told_apart = relative_to_prompt(torch.tensor([[1.0], [0.0]]))
    assert (relative.tolist(), is_told_apart.tolist()) == ([[1.0], [0.0]], [True, True])
