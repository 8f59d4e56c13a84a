"""Grouped-query attention over a prefix that is read in both directions.

The mask is built once a forward pass (`attend_bias`) and shared by all layers. A key may be attended if it is real and
either not later than the query or inside part A (the first `context_length` real tokens). Every position may attend to
itself, so that a padded row stays finite and cannot poison the sums of others.

Shapes: B batch, T tokens (queries), S tokens (keys, cache included), D model dim, H heads, K kv heads, C head dim.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

from models.config import GlmConfig
from models.rope import rotate


def attend_bias(
    is_real_BS: torch.Tensor | None,
    context_length_B: torch.Tensor | None,
    *,
    num_queries: int,
    num_keys: int,
    like: torch.Tensor,
) -> torch.Tensor | None:
    """Additive mask [B or 1, 1, T, S]: 0 = may attend, -inf = not. None: plain causal, or one query that sees all."""
    if is_real_BS is not None and _is_padded_right(is_real_BS, num_queries):
        is_real_BS = None  # padding comes after every real query, so the causal order hides it already
    if is_real_BS is None and context_length_B is None and num_queries in {1, num_keys}:
        return None
    key_S = torch.arange(num_keys, device=like.device)
    query_T = key_S[num_keys - num_queries :]
    attend = (key_S <= query_T[:, None])[None]
    if context_length_B is not None:
        rank = key_S[None] if is_real_BS is None else is_real_BS.cumsum(1) - 1
        attend = attend | (rank < context_length_B[:, None])[:, None]
    if is_real_BS is not None:
        attend = attend & is_real_BS[:, None]
        attend = attend | (key_S == query_T[:, None])
    return as_bias(attend, like=like)


def as_bias(attend_BTS: torch.Tensor, *, like: torch.Tensor) -> torch.Tensor:
    """Additive mask [B, 1, T, S] of a bool one (True = may attend)."""
    bias = torch.zeros(attend_BTS.shape, dtype=like.dtype, device=like.device)
    return bias.masked_fill_(~attend_BTS, float("-inf"))[:, None]


def _is_padded_right(is_real_BS: torch.Tensor, num_queries: int) -> bool:
    if num_queries != is_real_BS.shape[1]:
        return bool(is_real_BS.all())
    return bool((is_real_BS[:, :-1] >= is_real_BS[:, 1:]).all())


class Attention(nn.Module):
    """Attention without biases; q, k and v come from one product."""

    def __init__(self, config: GlmConfig, layer_idx: int) -> None:
        super().__init__()
        self.layer_idx = layer_idx
        self.head_dim: int = config.head_dim
        self.num_heads: int = config.num_attention_heads
        self.num_kv_heads: int = config.num_key_value_heads
        num_rows = (self.num_heads + 2 * self.num_kv_heads) * self.head_dim
        self.qkv_proj = nn.Linear(config.hidden_size, num_rows, bias=False)
        self.o_proj = nn.Linear(self.num_heads * self.head_dim, config.hidden_size, bias=False)
        self.q_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps) if config.qk_norm else None
        self.k_norm = nn.RMSNorm(self.head_dim, eps=config.rms_norm_eps) if config.qk_norm else None

    def forward(
        self, x_BTD: torch.Tensor, rotations_BT1P: torch.Tensor, bias: torch.Tensor | None, cache: Any = None
    ) -> torch.Tensor:
        qkv_BTHC = self.qkv_proj(x_BTD).view(*x_BTD.shape[:2], -1, self.head_dim)
        qk_BTHC, v_BTKC = torch.split(qkv_BTHC, [self.num_heads + self.num_kv_heads, self.num_kv_heads], dim=2)
        if self.q_norm is not None and self.k_norm is not None:
            q_BTHC, k_BTKC = torch.split(qk_BTHC, [self.num_heads, self.num_kv_heads], dim=2)
            qk_BTHC = torch.cat((self.q_norm(q_BTHC), self.k_norm(k_BTKC)), dim=2)
        qk_BHTC = rotate(qk_BTHC, rotations_BT1P).transpose(1, 2)
        q_BHTC, k_BKSC = torch.split(qk_BHTC, [self.num_heads, self.num_kv_heads], dim=1)
        v_BKSC = v_BTKC.transpose(1, 2)
        if cache is not None:
            k_BKSC, v_BKSC = cache.update(k_BKSC, v_BKSC, self.layer_idx)
        if self.num_kv_heads != self.num_heads:
            k_BKSC = k_BKSC.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
            v_BKSC = v_BKSC.repeat_interleave(self.num_heads // self.num_kv_heads, dim=1)
        is_causal = bias is None and q_BHTC.shape[2] > 1
        y_BHTC = functional.scaled_dot_product_attention(q_BHTC, k_BKSC, v_BKSC, attn_mask=bias, is_causal=is_causal)
        return self.o_proj(y_BHTC.transpose(1, 2).flatten(2))  # type: ignore[no-any-return]
