"""The dense feed-forward block: SwiGLU (Shazeer 2020, "GLU variants").

Shapes: B batch, T tokens, D model dim, F ffn dim.
"""

import torch
from torch import nn
from torch.nn import functional


class SwiGluFfn(nn.Module):
    """down(silu(gate(x)) * up(x)); gate and up come from one product, gate rows first."""

    def __init__(self, hidden_size: int, ffn_size: int) -> None:
        super().__init__()
        self.gate_up_proj = nn.Linear(hidden_size, 2 * ffn_size, bias=False)
        self.down_proj = nn.Linear(ffn_size, hidden_size, bias=False)

    def forward(self, x_BTD: torch.Tensor) -> torch.Tensor:
        gate_BTF, up_BTF = self.gate_up_proj(x_BTD).chunk(2, dim=-1)
        return self.down_proj(functional.silu(gate_BTF) * up_BTF)  # type: ignore[no-any-return]
