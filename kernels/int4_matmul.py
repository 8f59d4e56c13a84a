"""INT4 weights: two to a byte, a scale per group of input columns; product by dequantizing first.

GLM-130B's packing: byte[o, j] = q[o, 2j] << 4 | q[o, 2j+1] & 0xF, so the even column sits in the high nibble. The scale
is per output row and group of `group_size` columns; the last group of a row may be shorter. Leading dimensions (a stack
of experts) are allowed everywhere.

Shapes: [..., O, I] weights, [..., O, I/2] packed int8, [..., O, G] scales.
"""

import torch
from torch.nn import functional

from kernels.dispatch import register_kernel
from kernels.grouped_experts import grouped_experts


def pack_int4(q: torch.Tensor) -> torch.Tensor:
    """int8 values in -8..7, [..., I] -> int8 [..., I/2]; the even index goes into the high nibble."""
    if q.dtype != torch.int8 or q.shape[-1] % 2:
        raise ValueError(
            f"q: want int8 with an even number of columns, got {q.dtype} {tuple(q.shape)}; pad the last dimension"
        )
    if q.numel() and (int(q.min()) < -8 or int(q.max()) > 7):
        raise ValueError(f"q: want values in -8..7, got {int(q.min())}..{int(q.max())}; clamp before packing")
    return (q[..., 0::2] << 4) | (q[..., 1::2] & 0xF)


def unpack_int4(packed: torch.Tensor) -> torch.Tensor:
    """The exact inverse of `pack_int4`."""
    if packed.dtype != torch.int8:
        raise ValueError(f"packed: want int8, got {packed.dtype}; pass what pack_int4 returned")
    high = packed >> 4  # arithmetic shift: keeps the sign
    low = (packed << 4) >> 4
    return torch.stack((high, low), dim=-1).flatten(-2)


def dequantize_int4(packed: torch.Tensor, scale: torch.Tensor, group_size: int) -> torch.Tensor:
    """fp32 weights [..., O, I]."""
    weight = unpack_int4(packed).to(torch.float32)
    num_columns = weight.shape[-1]
    if num_columns % group_size == 0:
        grouped = weight.view(*scale.shape, group_size)
        return grouped.mul_(scale.to(torch.float32).unsqueeze(-1)).view(weight.shape)
    return weight.mul_(scale.to(torch.float32).repeat_interleave(group_size, dim=-1)[..., :num_columns])


@register_kernel("int4_matmul", "torch")
def int4_matmul(x: torch.Tensor, packed: torch.Tensor, scale: torch.Tensor, group_size: int) -> torch.Tensor:
    """x [..., I] @ weight.T -> [..., O]."""
    return functional.linear(x, dequantize_int4(packed, scale, group_size).to(x.dtype))


@register_kernel("int4_grouped_experts", "torch")
def int4_grouped_experts(
    x_TD: torch.Tensor,
    gate_TK: torch.Tensor,
    expert_idx_TK: torch.Tensor,
    gate_up: tuple[torch.Tensor, torch.Tensor],
    down: tuple[torch.Tensor, torch.Tensor],
    group_size: int,
) -> torch.Tensor:
    """`grouped_experts` on packed stacks; `gate_up` and `down` are (packed, scale)."""
    gate_up_EGD = dequantize_int4(*gate_up, group_size).to(x_TD.dtype)
    down_EDF = dequantize_int4(*down, group_size).to(x_TD.dtype)
    return grouped_experts(x_TD, gate_TK, expert_idx_TK, gate_up_EGD, down_EDF)
