import pytest
import torch

from models.rollout import (
    Rollout,
    answer_logprobs,
    answer_values,
    evaluate_answers,
    pad_answers,
    sample_answers,
    with_advantages,
)
from tests.support.tiny_glm import tiny_glm, tiny_reward_model

PROMPTS, ANSWERS = [[5, 6, 7, 8], [9, 10]], [[11, 0], [12, 13, 14]]


def tokens():
    return pad_answers(PROMPTS, ANSWERS, pad_id=0, device="cpu")


def rollout(reward=(1.0, -1.0), seed=0):
    policy = tiny_glm(seed)
    return evaluate_answers(policy, tiny_reward_model(), tiny_glm(), tokens(), torch.tensor(reward))


def test_an_answer_counts_from_the_token_that_predicts_it_to_the_one_before_its_end():
    padded = tokens()
    assert padded.input_ids_BL.tolist() == [[5, 6, 7, 8, 11, 0], [9, 10, 12, 13, 14, 0]]
    assert padded.is_real_BL.tolist() == [[True] * 6, [True] * 5 + [False]]
    assert padded.is_answer_BT.int().tolist() == [[0, 0, 0, 1, 1], [0, 1, 1, 1, 0]]
    assert padded.num_answer_tokens == 5


def test_an_empty_answer_is_refused():
    with pytest.raises(ValueError, match="want at least one token in each"):
        pad_answers([[1]], [[]], pad_id=0, device="cpu")


def test_logprobs_equal_those_that_generation_reports():
    policy = tiny_glm()
    generator = torch.Generator().manual_seed(0)
    found = sample_answers(
        policy, PROMPTS, max_new_tokens=4, stop_ids=[0], temperature=1.0, generator=generator, batch_size=1
    )
    padded = pad_answers(PROMPTS, [one.token_ids for one in found], pad_id=0, device="cpu")
    logprobs_BT, _ = answer_logprobs(policy, padded)
    expected = [value for one in found for value in one.logprobs]
    torch.testing.assert_close(logprobs_BT[padded.is_answer_BT], torch.tensor(expected), atol=1e-5, rtol=1e-4)


def test_recomputing_with_gradients_gives_the_same_bits():
    policy, padded = tiny_glm().train(), tokens()
    with torch.no_grad():
        before, _ = answer_logprobs(policy.eval(), padded)
    assert torch.equal(answer_logprobs(policy.train(), padded)[0].detach(), before)


def test_the_same_weights_have_a_kl_of_exactly_zero_and_others_do_not():
    assert not rollout().kl_BT.any()
    assert rollout(seed=1).kl_BT.any()


def test_the_value_at_the_last_token_is_the_reward_models_score():
    critic, padded = tiny_reward_model(), tokens()
    values_BT = answer_values(critic, padded)
    # the state before the last answer token is the conversation without it
    for row, length in ((0, 5), (1, 4)):
        score = critic(input_ids=padded.input_ids_BL[row : row + 1, :length]).logits[0, 0]
        torch.testing.assert_close(values_BT[row, length - 1], score, atol=1e-5, rtol=1e-4)
    assert not values_BT[~padded.is_answer_BT].any()


def test_sampling_with_the_same_seed_gives_the_same_answers():
    def sampled():
        generator = torch.Generator().manual_seed(1)
        return sample_answers(
            tiny_glm(), PROMPTS, max_new_tokens=6, stop_ids=[0], temperature=1.0, generator=generator, batch_size=2
        )

    assert sampled() == sampled()


def test_advantages_are_whitened_over_all_micro_batches_together():
    made = with_advantages([rollout(), rollout((3.0, 0.5))], kl_coef=0.1, gamma=1.0, lam=0.95)
    counted = torch.cat([one.advantages_BT[one.tokens.is_answer_BT] for one in made])
    torch.testing.assert_close(counted.mean(), torch.tensor(0.0), atol=1e-6, rtol=0)
    torch.testing.assert_close(counted.square().mean(), torch.tensor(1.0))
    assert not made[0].returns_BT[~made[0].tokens.is_answer_BT].any()


def test_with_lambda_and_gamma_one_every_return_is_the_reward_without_kl():
    one = with_advantages([rollout((2.0, -1.0))], kl_coef=0.0, gamma=1.0, lam=1.0)[0]
    torch.testing.assert_close(one.returns_BT[0][one.tokens.is_answer_BT[0]], torch.tensor([2.0, 2.0]))
    torch.testing.assert_close(one.returns_BT[1][one.tokens.is_answer_BT[1]], torch.tensor([-1.0] * 3))


def test_rewards_that_tell_nothing_apart_are_refused():
    with pytest.raises(RuntimeError, match=r"want answers that are told apart, got 1\.0 for all 2"):
        with_advantages([rollout((1.0, 1.0))], kl_coef=0.1, gamma=1.0, lam=1.0)


def test_a_reward_that_is_not_finite_is_refused():
    with pytest.raises(RuntimeError, match="rewards: want finite numbers, got nan"):
        with_advantages([rollout((1.0, float("nan")))], kl_coef=0.1, gamma=1.0, lam=1.0)


def test_advantages_that_are_all_zero_are_refused():
    padded = pad_answers([[5], [6]], [[7], [8]], pad_id=0, device="cpu")
    zeros, reward = torch.zeros(2, 1), torch.tensor([1.0, 2.0])
    perfect = Rollout(padded, zeros, reward[:, None], zeros, zeros, reward, zeros, zeros)
    with pytest.raises(RuntimeError, match="advantages: want some that are not 0"):
        with_advantages([perfect], kl_coef=0.0, gamma=1.0, lam=1.0)
