"""Rotary positions in two dimensions: half of every head's pairs turn with the position, half with the block position.

ChatGLM-6B's scheme (SAT, chatglm_model.py) on interleaved pairs (x0, x1): pair i of a half turns by
`position * base ** (-2i / (head_dim / 2))` (Su et al. 2021). With all block positions 0 the second half stands still,
which is the partial rotary embedding (0.5) of ChatGLM2 to GLM-4.5.

Shapes: B batch, T tokens, H heads, C head dim, P = C/2 pairs.
"""

import torch


def rotations(
    position_ids_BT: torch.Tensor, block_position_ids_BT: torch.Tensor, *, head_dim: int, base: float
) -> torch.Tensor:
    """The unit complex numbers [B, T, 1, P] that turn each pair."""
    half_dim = head_dim // 2
    exponents = torch.arange(0, half_dim, 2, device=position_ids_BT.device, dtype=torch.float32) / half_dim
    frequencies = base**-exponents
    angles_BTP = torch.cat(
        (position_ids_BT[..., None] * frequencies, block_position_ids_BT[..., None] * frequencies), dim=-1
    )
    return torch.polar(torch.ones_like(angles_BTP), angles_BTP).unsqueeze(2)


def rotate(x_BTHC: torch.Tensor, rotations_BT1P: torch.Tensor) -> torch.Tensor:
    """Turn the pairs of every head; computed in fp32."""
    pairs_BTHP = torch.view_as_complex(x_BTHC.float().reshape(*x_BTHC.shape[:-1], -1, 2))
    return torch.view_as_real(pairs_BTHP * rotations_BT1P).flatten(-2).to(x_BTHC.dtype)
