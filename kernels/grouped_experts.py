"""SwiGLU experts over routed tokens: every token's top-k experts, weighted by its gates, nothing dropped.

y_t = sum_k gate_tk * down_e(silu(x_t W_gate,e) * (x_t W_up,e)),  e = expert_idx_tk
(Shazeer 2020, "GLU variants"; gate and up are stacked in one weight.)

Rows are sorted by expert, so each expert is one slice of a grouped matrix product. The gate is applied before the down
projection: the same sum on the smaller side. Bitwise deterministic at a fixed number of threads: the sort is stable and
the sum over k runs in a fixed order. An expert without tokens gets exact zero gradients.

Shapes: T tokens, K top-k, R = T*K routed rows, D model dim, F ffn dim, E experts.

Measured (2 threads, T=2048, D=192, F=128, 8 experts top-2, forward + backward, minimum of 20): this form 13.5 ms, one
matrix product per expert in a hand-written autograd function 13.7 ms, dense layer of equal FLOPs 10.9 ms.
"""

import torch
from torch.nn import functional

from kernels.dispatch import register_kernel


@register_kernel("grouped_experts", "torch")
def grouped_experts(
    x_TD: torch.Tensor,
    gate_TK: torch.Tensor,
    expert_idx_TK: torch.Tensor,
    gate_up_EGD: torch.Tensor,
    down_EDF: torch.Tensor,
) -> torch.Tensor:
    """The mixture's output [T, D]; `gate_up_EGD` is [E, 2F, D], gate rows before up rows."""
    num_experts, _, ffn_size = down_EDF.shape
    top_k = expert_idx_TK.shape[1]
    expert_idx_R = expert_idx_TK.reshape(-1)
    order_R = expert_idx_R.argsort(stable=True)
    place_R = torch.empty_like(order_R)
    place_R[order_R] = torch.arange(order_R.numel(), device=order_R.device)
    ends_E = torch.bincount(expert_idx_R, minlength=num_experts).cumsum(0).to(torch.int32)

    x_RD = x_TD.index_select(0, order_R // top_k)
    gate_R1 = gate_TK.reshape(-1, 1).index_select(0, order_R)
    hidden_RG = functional.grouped_mm(x_RD, gate_up_EGD.transpose(1, 2), offs=ends_E)
    hidden_RF = functional.silu(hidden_RG[:, :ffn_size]) * hidden_RG[:, ffn_size:] * gate_R1.to(hidden_RG.dtype)
    y_RD = functional.grouped_mm(hidden_RF, down_EDF.transpose(1, 2), offs=ends_E)
    return y_RD.index_select(0, place_R).view(-1, top_k, y_RD.shape[1]).sum(1)
