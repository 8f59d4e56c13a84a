"""Keeping the experts evenly used: the sequence balance loss, the loss-free bias, load statistics.

DeepSeek-V3 section 2.1.2, used by GLM-4.5 with loss weight 1e-4 and bias rate 1e-3. Padding never counts.

Shapes: B batch, T tokens, E experts, K top-k.
"""

import torch
from torch.nn import functional


def sequence_balance_loss(
    scores_BTE: torch.Tensor, expert_idx_BTK: torch.Tensor, is_real_BT: torch.Tensor | None = None
) -> torch.Tensor:
    """Mean over sequences of sum_i f_i P_i; 1 at perfect balance, E/K at worst (unweighted: the caller multiplies).

    f_i = E/(K T) * times expert i was chosen, P_i = mean over tokens of s_i / sum_j s_j.
    """
    num_experts, top_k = scores_BTE.shape[-1], expert_idx_BTK.shape[-1]
    if is_real_BT is None:
        is_real_BT = torch.ones(scores_BTE.shape[:2], dtype=torch.bool, device=scores_BTE.device)
    is_real_BT1 = is_real_BT.to(scores_BTE.dtype).unsqueeze(-1)
    num_real_B1 = is_real_BT1.sum(1).clamp(min=1)
    times_chosen_BTE = functional.one_hot(expert_idx_BTK, num_experts).sum(2)
    fraction_BE = (times_chosen_BTE * is_real_BT1).sum(1) * (num_experts / top_k) / num_real_B1
    probs_BTE = scores_BTE / (scores_BTE.sum(-1, keepdim=True) + 1e-20)
    mean_prob_BE = (probs_BTE * is_real_BT1).sum(1) / num_real_B1
    has_tokens_B = is_real_BT.any(1)
    loss_B = (fraction_BE * mean_prob_BE).sum(-1)
    return (loss_B * has_tokens_B).sum() / has_tokens_B.sum().clamp(min=1)


def switch_balance_loss(probs_TE: torch.Tensor, expert_idx_TK: torch.Tensor) -> torch.Tensor:
    """E * sum_i f_i P_i with f summing to 1 (Fedus et al. 2021, eq. 4); 1 at perfect balance."""
    num_experts, top_k = probs_TE.shape[-1], expert_idx_TK.shape[-1]
    times_chosen_E = functional.one_hot(expert_idx_TK, num_experts).sum((0, 1)).to(probs_TE.dtype)
    fraction_E = times_chosen_E / (probs_TE.shape[0] * top_k)
    return num_experts * (fraction_E * probs_TE.mean(0)).sum()


@torch.no_grad()
def update_bias(bias_E: torch.Tensor, counts_E: torch.Tensor, rate: float) -> None:
    """In place: overloaded experts go down by `rate`, the others up (GLM-4.5 section 2); a mean load stays."""
    load_E = counts_E.to(bias_E.dtype)
    bias_E += rate * torch.sign(load_E.mean() - load_E)


def load_statistics(counts_E: torch.Tensor) -> dict[str, float]:
    """max_violation (max/mean - 1), cv (std/mean), entropy_ratio (1 = uniform), dead_experts (load < 0.1 of fair)."""
    load_E = counts_E.double()
    total = float(load_E.sum())
    num_experts = load_E.numel()
    if total == 0:
        raise ValueError("counts: want at least one routed token, got none; take the statistics after a forward pass")
    share_E = load_E / total
    entropy = float(-(share_E * share_E.clamp(min=1e-300).log()).sum())
    return {
        "max_violation": float(share_E.max()) * num_experts - 1,
        "cv": float(share_E.std(correction=0)) * num_experts,
        "entropy_ratio": entropy / float(torch.tensor(float(num_experts)).log()),
        "dead_experts": float((share_E < 0.1 / num_experts).sum()),
    }
