"""INT8 weights with one symmetric scale per output row (GLM-130B); product by dequantizing first.

Shapes: [..., O, I] int8 weights, [..., O] scales; leading dimensions (a stack of experts) are allowed.
"""

import torch
from torch.nn import functional

from kernels.dispatch import register_kernel
from kernels.grouped_experts import grouped_experts


def dequantize_int8(q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """fp32 weights [..., O, I]."""
    return q.to(torch.float32).mul_(scale.to(torch.float32).unsqueeze(-1))


@register_kernel("int8_matmul", "torch")
def int8_matmul(x: torch.Tensor, q: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """x [..., I] @ weight.T -> [..., O]."""
    return functional.linear(x, dequantize_int8(q, scale).to(x.dtype))


@register_kernel("int8_grouped_experts", "torch")
def int8_grouped_experts(
    x_TD: torch.Tensor,
    gate_TK: torch.Tensor,
    expert_idx_TK: torch.Tensor,
    gate_up: tuple[torch.Tensor, torch.Tensor],
    down: tuple[torch.Tensor, torch.Tensor],
) -> torch.Tensor:
    """`grouped_experts` on quantized stacks; `gate_up` and `down` are (q, scale)."""
    gate_up_EGD = dequantize_int8(*gate_up).to(x_TD.dtype)
    down_EDF = dequantize_int8(*down).to(x_TD.dtype)
    return grouped_experts(x_TD, gate_TK, expert_idx_TK, gate_up_EGD, down_EDF)
