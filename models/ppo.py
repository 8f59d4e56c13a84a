"""The arithmetic of PPO: KL estimators, GAE, clipped losses and their diagnostics.

Everything is per token; `is_answer_BT` says which tokens the policy chose (True = counts). Answers may be padded on the
right: a value and a reward after the end are 0, so padding changes nothing.

Shapes: B answers, T tokens, V vocabulary, P prompts, K samples of each.
"""

from dataclasses import dataclass
from typing import Literal

import torch

KlEstimator = Literal["k1", "k2", "k3"]
_WHITEN_EPS = 1e-8
_SAME_REWARD = 1e-6


def kl(logprobs: torch.Tensor, ref_logprobs: torch.Tensor, estimator: KlEstimator) -> torch.Tensor:
    """Per-token estimate of KL(policy || reference) from the sampled tokens, r = logprobs - ref_logprobs.

    Schulman 2020, "Approximating KL divergence": k1 = r (unbiased), k2 = r^2 / 2, k3 = exp(-r) - 1 + r (>= 0).
    """
    log_ratio = logprobs - ref_logprobs
    if estimator == "k1":
        return log_ratio
    if estimator == "k2":
        return log_ratio.square() / 2
    if estimator == "k3":
        return torch.expm1(-log_ratio) + log_ratio
    raise ValueError(f"estimator: want k1, k2 or k3, got {estimator!r}; choose one of them")


def gae(rewards: torch.Tensor, values: torch.Tensor, gamma: float, lam: float) -> tuple[torch.Tensor, torch.Tensor]:
    """(advantages, returns) over the last dimension; the value after the end is 0.

    Schulman et al. 2016, eq. 16: delta_t = r_t + gamma V_{t+1} - V_t, A_t = delta_t + gamma lam A_{t+1}.
    """
    if rewards.shape != values.shape or rewards.ndim == 0:
        raise ValueError(
            f"rewards, values: want one shape [..., T], got {tuple(rewards.shape)} and {tuple(values.shape)}; "
            "give one value a token"
        )
    advantages = torch.zeros_like(values)
    advantage = torch.zeros_like(values[..., 0]) if values.shape[-1] else torch.zeros(())
    next_value = torch.zeros_like(advantage)
    for t in reversed(range(values.shape[-1])):
        delta = rewards[..., t] + gamma * next_value - values[..., t]
        advantage = delta + gamma * lam * advantage
        advantages[..., t] = advantage
        next_value = values[..., t]
    return advantages, advantages + values


def masked_mean(x_BT: torch.Tensor, is_counted_BT: torch.Tensor) -> torch.Tensor:
    """Mean over the counted tokens. Raises ValueError if there is none."""
    num_counted = int(is_counted_BT.sum())
    if num_counted == 0:
        raise ValueError("is_counted: want at least one token that counts, got none; drop such a batch before")
    return torch.where(is_counted_BT, x_BT, 0.0).sum() / num_counted


def whiten(x_BT: torch.Tensor, is_counted_BT: torch.Tensor) -> torch.Tensor:
    """Mean 0 and variance 1 over the counted tokens, 0 elsewhere."""
    mean = masked_mean(x_BT, is_counted_BT)
    variance = masked_mean((x_BT - mean).square(), is_counted_BT)
    return torch.where(is_counted_BT, (x_BT - mean) * torch.rsqrt(variance + _WHITEN_EPS), 0.0)


@dataclass(frozen=True)
class PolicyLoss:
    """The loss and what it says about the step; all are sums over the counted tokens divided by `num_tokens`."""

    loss: torch.Tensor
    clip_fraction: float
    approx_kl: float  # k3 between the sampling policy and the current one
    ratio_error: float  # max |ratio - 1|


def policy_loss(
    logprobs_BT: torch.Tensor,
    old_logprobs_BT: torch.Tensor,
    advantages_BT: torch.Tensor,
    is_answer_BT: torch.Tensor,
    *,
    clip_range: float,
    num_tokens: int,
) -> PolicyLoss:
    """- mean min(ratio A, clip(ratio, 1 - c, 1 + c) A): Schulman et al. 2017, eq. 7.

    `num_tokens` is the number of counted tokens of the whole step, so that micro-batch losses add up.
    """
    # masked before exp: a padded position must not overflow, not even in the gradient
    log_ratio_BT = torch.where(is_answer_BT, logprobs_BT - old_logprobs_BT, 0.0)
    ratio_BT = log_ratio_BT.exp()
    clipped_BT = ratio_BT.clamp(1 - clip_range, 1 + clip_range)
    objective_BT = torch.minimum(ratio_BT * advantages_BT, clipped_BT * advantages_BT)
    loss = -torch.where(is_answer_BT, objective_BT, 0.0).sum() / num_tokens
    with torch.no_grad():
        is_clipped_BT = is_answer_BT & (clipped_BT * advantages_BT < ratio_BT * advantages_BT)
        approx_kl = kl(old_logprobs_BT, logprobs_BT, "k3")
        return PolicyLoss(
            loss=loss,
            clip_fraction=float(is_clipped_BT.sum() / num_tokens),
            approx_kl=float(torch.where(is_answer_BT, approx_kl, 0.0).sum() / num_tokens),
            ratio_error=float((ratio_BT - 1).abs().max()),
        )


def value_loss(
    values_BT: torch.Tensor,
    old_values_BT: torch.Tensor,
    returns_BT: torch.Tensor,
    is_answer_BT: torch.Tensor,
    *,
    clip_range: float,
    num_tokens: int,
) -> torch.Tensor:
    """Half the mean of the worse of two squared errors, plain and with the value kept near the old one (PPO2)."""
    near_old_BT = old_values_BT + (values_BT - old_values_BT).clamp(-clip_range, clip_range)
    worse_BT = torch.maximum((values_BT - returns_BT).square(), (near_old_BT - returns_BT).square())
    return 0.5 * torch.where(is_answer_BT, worse_BT, 0.0).sum() / num_tokens


def token_rewards(
    reward_B: torch.Tensor, kl_BT: torch.Tensor, is_answer_BT: torch.Tensor, *, kl_coef: float
) -> torch.Tensor:
    """-kl_coef KL at every answer token, and the answer's reward at its last one (Ziegler et al. 2019, eq. 2)."""
    positions_T = torch.arange(is_answer_BT.shape[1], device=is_answer_BT.device)
    last_B = torch.where(is_answer_BT, positions_T, -1).amax(1)
    if bool((last_B < 0).any()):
        raise ValueError("is_answer: want an answer token in every row, got a row without; drop empty answers before")
    rewards_BT = torch.where(is_answer_BT, -kl_coef * kl_BT, 0.0)
    rewards_BT[torch.arange(len(last_B)), last_B] += reward_B
    return rewards_BT


def relative_to_prompt(reward_PK: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rewards less the mean of their prompt's samples [P, K], bool [P]: whether its samples are told apart at all).

    The mean of the samples is a baseline that needs no critic (RLOO, Ahmadian et al. 2024); a prompt whose samples are
    all worth the same teaches nothing and is dropped (DAPO, Yu et al. 2025). With one sample a prompt, nothing is
    subtracted or dropped.
    """
    if reward_PK.shape[1] == 1:
        return reward_PK, torch.ones(len(reward_PK), dtype=torch.bool, device=reward_PK.device)
    relative_PK = reward_PK - reward_PK.mean(1, keepdim=True)
    return relative_PK, relative_PK.abs().amax(1) > _SAME_REWARD


def explained_variance(values_BT: torch.Tensor, returns_BT: torch.Tensor, is_answer_BT: torch.Tensor) -> float:
    """1 - Var(returns - values) / Var(returns) over the answers; 1 = the critic knows, 0 = it knows nothing."""
    returns, values = returns_BT[is_answer_BT], values_BT[is_answer_BT]
    variance = float(returns.var(correction=0))
    return 1.0 - float((returns - values).var(correction=0)) / variance if variance > 0 else 0.0


def entropy(logits_BTV: torch.Tensor) -> torch.Tensor:
    """Entropy in nats of the next-token distribution at every position."""
    logprobs_BTV = logits_BTV.log_softmax(-1)
    return -(logprobs_BTV.exp() * logprobs_BTV).sum(-1)
