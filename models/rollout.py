"""Rollouts: answers sampled from the policy, and what PPO needs to know about each of their tokens.

Log-probabilities are recomputed with the forward pass that training uses, in the micro-batches that training uses, so
that before the first update the ratio is exactly 1 and the KL to an identical reference exactly 0. Index t of every
[B, T] tensor belongs to token t + 1: its log-probability and the value of the state in which it was chosen.

Shapes: B answers, T positions that predict a token, L = T + 1 tokens, D model dim, V vocabulary, N answer tokens.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch

from models.generate import Generation, Generator, generate
from models.ppo import entropy, gae, kl, token_rewards, whiten


@dataclass(frozen=True)
class AnswerTokens:
    """Prompts with their answers, padded on the right."""

    input_ids_BL: torch.Tensor
    is_real_BL: torch.Tensor
    is_answer_BT: torch.Tensor  # True where token t + 1 was chosen by the policy

    @property
    def num_answer_tokens(self) -> int:
        """Tokens that the policy chose."""
        return int(self.is_answer_BT.sum())


@dataclass(frozen=True)
class Rollout:
    """A micro-batch of answers, ready for PPO's epochs."""

    tokens: AnswerTokens
    old_logprobs_BT: torch.Tensor
    old_values_BT: torch.Tensor
    kl_BT: torch.Tensor  # k1 to the frozen reference
    entropy_BT: torch.Tensor
    reward_B: torch.Tensor  # relative to the prompt's other samples
    advantages_BT: torch.Tensor
    returns_BT: torch.Tensor


def generators(seed: int, count: int) -> list[torch.Generator]:
    """One random stream for each of `count` prompts: two models that sample with them are compared prompt by prompt."""
    seeds = random.Random(seed)
    return [torch.Generator().manual_seed(seeds.getrandbits(32)) for _ in range(count)]


def sample_answers(
    policy: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    stop_ids: Sequence[int],
    temperature: float,
    generator: Generator,
    batch_size: int,
) -> list[Generation]:
    """One answer to every prompt, in the order given; similar lengths share a batch."""
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))
    answers = [Generation() for _ in prompts]
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        generations = generate(
            policy,
            [prompts[i] for i in batch],
            max_new_tokens=max_new_tokens,
            stop_ids=stop_ids,
            temperature=temperature,
            generator=[generator[i] for i in batch] if isinstance(generator, Sequence) else generator,
        )
        for i, generation in zip(batch, generations, strict=True):
            answers[i] = generation
    return answers


def pad_answers(
    prompts: Sequence[Sequence[int]], answers: Sequence[Sequence[int]], *, pad_id: int, device: torch.device | str
) -> AnswerTokens:
    """Put prompts and answers together. Raises ValueError for an empty prompt or answer."""
    if any(not prompt or not answer for prompt, answer in zip(prompts, answers, strict=True)):
        raise ValueError("prompts, answers: want at least one token in each, got an empty one; drop it before")
    rows = [[*prompt, *answer] for prompt, answer in zip(prompts, answers, strict=True)]
    length = max(map(len, rows))
    ids_BL = torch.tensor([[*row, *[pad_id] * (length - len(row))] for row in rows], device=device)
    position_L = torch.arange(length, device=device)
    length_B1 = torch.tensor([[len(row)] for row in rows], device=device)
    prompt_length_B1 = torch.tensor([[len(prompt)] for prompt in prompts], device=device)
    is_real_BL = position_L < length_B1
    return AnswerTokens(ids_BL, is_real_BL, (is_real_BL & (position_L >= prompt_length_B1))[:, 1:])


def answer_logprobs(policy: Any, tokens: AnswerTokens) -> tuple[torch.Tensor, torch.Tensor]:
    """(log-probabilities, entropies without gradient) of the answer tokens [B, T], 0 elsewhere."""
    hidden_BLD = policy.model(input_ids=tokens.input_ids_BL, attention_mask=tokens.is_real_BL).hidden_BTD
    logits_NV = policy.lm_head(hidden_BLD[:, :-1][tokens.is_answer_BT]).float()
    chosen_N1 = tokens.input_ids_BL[:, 1:][tokens.is_answer_BT][:, None]
    logprobs_N = logits_NV.log_softmax(-1).gather(-1, chosen_N1).squeeze(-1)
    with torch.no_grad():
        entropy_N = entropy(logits_NV)
    empty_BT = torch.zeros_like(tokens.is_answer_BT, dtype=torch.float32)
    return (
        empty_BT.masked_scatter(tokens.is_answer_BT, logprobs_N),
        empty_BT.masked_scatter(tokens.is_answer_BT, entropy_N),
    )


def answer_values(critic: Any, tokens: AnswerTokens) -> torch.Tensor:
    """The critic's value before each answer token [B, T], 0 elsewhere: the reward model's head at every position."""
    hidden_BLD = critic.model(input_ids=tokens.input_ids_BL, attention_mask=tokens.is_real_BL).hidden_BTD
    values_BT = critic.score(hidden_BLD[:, :-1]).squeeze(-1).float()
    return torch.where(tokens.is_answer_BT, values_BT, 0.0)


@torch.no_grad()
def evaluate_answers(policy: Any, critic: Any, reference: Any, tokens: AnswerTokens, reward_B: torch.Tensor) -> Rollout:
    """A rollout without advantages yet."""
    logprobs_BT, entropy_BT = answer_logprobs(policy, tokens)
    ref_logprobs_BT, _ = answer_logprobs(reference, tokens)
    nothing_BT = torch.zeros_like(logprobs_BT)
    return Rollout(
        tokens=tokens,
        old_logprobs_BT=logprobs_BT,
        old_values_BT=answer_values(critic, tokens),
        kl_BT=kl(logprobs_BT, ref_logprobs_BT, "k1"),
        entropy_BT=entropy_BT,
        reward_B=reward_B,
        advantages_BT=nothing_BT,
        returns_BT=nothing_BT,
    )


def with_advantages(rollouts: Sequence[Rollout], *, kl_coef: float, gamma: float, lam: float) -> list[Rollout]:
    """The same rollouts with returns, and advantages whitened over all of them together.

    Raises RuntimeError when they carry no signal: every advantage 0, or all rewards the same.
    """
    rewards = torch.cat([rollout.reward_B for rollout in rollouts])
    if not bool(rewards.isfinite().all()):
        raise RuntimeError(f"rewards: want finite numbers, got {rewards[~rewards.isfinite()][0]}; look at the rewards")
    if bool((rewards == rewards[0]).all()):
        raise RuntimeError(
            f"rewards: want answers that are told apart, got {float(rewards[0])} for all {len(rewards)}; "
            "use another reward, or sample at a higher temperature"
        )
    found = []
    for rollout in rollouts:
        rewards_BT = token_rewards(rollout.reward_B, rollout.kl_BT, rollout.tokens.is_answer_BT, kl_coef=kl_coef)
        found.append(gae(rewards_BT, rollout.old_values_BT, gamma, lam))
    counted = torch.cat([rollout.tokens.is_answer_BT.flatten() for rollout in rollouts])
    advantages = torch.cat([advantages_BT.flatten() for advantages_BT, _ in found])
    if not bool(advantages[counted].any()):
        raise RuntimeError("advantages: want some that are not 0, got only zeros; nothing would be trained")
    whitened = torch.split(whiten(advantages, counted), [rollout.kl_BT.numel() for rollout in rollouts])
    return [
        replace(
            rollout,
            advantages_BT=advantages.view_as(rollout.kl_BT),
            # a position outside the answer has no return, whatever GAE left there
            returns_BT=torch.where(rollout.tokens.is_answer_BT, returns_BT, 0.0),
        )
        for rollout, advantages, (_, returns_BT) in zip(rollouts, whitened, found, strict=True)
    ]
