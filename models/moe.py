"""Mixture of experts: a sigmoid router with a selection bias, routed experts, shared experts.

GLM-4.5 / DeepSeek-V3 router (GLM-4.5 paper section 2): scores in fp32; the bias takes part in the choice only, the
gates come from the unbiased scores, are normalised over the chosen experts and scaled. No token is dropped.

Shapes: B batch, T tokens, D model dim, E experts, K top-k, F ffn dim.
"""

from typing import NamedTuple

import torch
from torch import nn
from torch.nn import functional

from kernels.dispatch import run_kernel
from kernels.grouped_experts import grouped_experts  # noqa: F401  registers the operation
from models.config import GlmConfig
from models.layers import SwiGluFfn


class RouterState(NamedTuple):
    """What one layer's router did, for balance losses, the bias update and the load metrics."""

    scores_BTE: torch.Tensor  # unbiased sigmoid scores, with gradient
    expert_idx_BTK: torch.Tensor
    counts_E: torch.Tensor  # real tokens per expert; a token counts once for each of its k experts


def route(
    scores: torch.Tensor,
    bias: torch.Tensor,
    *,
    top_k: int,
    num_groups: int = 1,
    top_groups: int = 1,
    routed_scaling_factor: float = 1.0,
) -> tuple[torch.Tensor, torch.Tensor]:
    """(gates [..., K], expert_idx [..., K]) for scores [..., E]; experts of groups not chosen cannot be selected."""
    biased = scores.detach() + bias
    if num_groups > 1:
        grouped = biased.view(*biased.shape[:-1], num_groups, -1)
        # DeepSeek-V3: a group is worth the sum of its two best experts
        group_score = grouped.topk(min(2, grouped.shape[-1]), dim=-1).values.sum(-1)
        chosen = group_score.topk(top_groups, dim=-1).indices
        is_chosen = torch.zeros_like(group_score, dtype=torch.bool).scatter_(-1, chosen, value=True)
        biased = grouped.masked_fill(~is_chosen.unsqueeze(-1), float("-inf")).flatten(-2)
    expert_idx = biased.topk(top_k, dim=-1).indices
    gate = scores.gather(-1, expert_idx)
    gate = gate / (gate.sum(-1, keepdim=True) + 1e-20) * routed_scaling_factor
    return gate, expert_idx


class Router(nn.Module):
    """fp32 sigmoid scores; `selection_bias` is a buffer that `balance.update_bias` moves, never a gradient."""

    selection_bias: torch.Tensor

    def __init__(self, config: GlmConfig) -> None:
        super().__init__()
        self.config = config
        self.weight = nn.Parameter(torch.empty(config.num_experts, config.hidden_size))
        self.register_buffer("selection_bias", torch.zeros(config.num_experts, dtype=torch.float32))

    def forward(self, x_BTD: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        scores_BTE = functional.linear(x_BTD.float(), self.weight.float()).sigmoid()
        gate_BTK, expert_idx_BTK = route(
            scores_BTE,
            self.selection_bias,
            top_k=self.config.top_k,
            num_groups=self.config.num_expert_groups,
            top_groups=self.config.top_expert_groups,
            routed_scaling_factor=self.config.routed_scaling_factor,
        )
        return scores_BTE, gate_BTK, expert_idx_BTK


class Experts(nn.Module):
    """The routed experts' weights, stacked: [E, 2F, D] (gate rows, then up rows) and [E, D, F]."""

    def __init__(self, num_experts: int, hidden_size: int, ffn_size: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Parameter(torch.empty(num_experts, 2 * ffn_size, hidden_size))
        self.down_proj = nn.Parameter(torch.empty(num_experts, hidden_size, ffn_size))

    def forward(self, x_TD: torch.Tensor, gate_TK: torch.Tensor, expert_idx_TK: torch.Tensor) -> torch.Tensor:
        return run_kernel("grouped_experts", x_TD, gate_TK, expert_idx_TK, self.gate_up_proj, self.down_proj)


class MoeFfn(nn.Module):
    """y = sum over the chosen experts of gate * expert(x), plus the shared experts (as one wider SwiGLU)."""

    def __init__(self, config: GlmConfig) -> None:
        super().__init__()
        self.router = Router(config)
        self.experts = Experts(config.num_experts, config.hidden_size, config.expert_ffn_size)
        shared_size = config.num_shared_experts * config.expert_ffn_size
        self.shared_expert = SwiGluFfn(config.hidden_size, shared_size) if shared_size else None

    def forward(self, x_BTD: torch.Tensor, is_real_BT: torch.Tensor | None) -> tuple[torch.Tensor, RouterState]:
        scores_BTE, gate_BTK, expert_idx_BTK = self.router(x_BTD)
        y_TD = self.experts(x_BTD.flatten(0, 1), gate_BTK.flatten(0, 1), expert_idx_BTK.flatten(0, 1))
        y_BTD = y_TD.view_as(x_BTD)
        if self.shared_expert is not None:
            y_BTD = y_BTD + self.shared_expert(x_BTD)
        counted = expert_idx_BTK if is_real_BT is None else expert_idx_BTK[is_real_BT]
        counts_E = torch.bincount(counted.flatten(), minlength=scores_BTE.shape[-1])
        return y_BTD, RouterState(scores_BTE, expert_idx_BTK, counts_E)
