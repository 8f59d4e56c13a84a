"""The whole model against a second, slow implementation written straight from the formulas, in double precision."""

import math

import pytest
import torch

from models.glm import GlmForCausalLM
from models.infilling import Infilling, assemble, attend_mask
from tests.support.tiny_glm import tiny_glm

LAYOUT = assemble(list(range(1, 13)), [(2, 2), (7, 3)], mask_id=61, sop_id=62, eop_id=63, order=[1, 0])


def _norm(x: torch.Tensor, weight: torch.Tensor, eps: float) -> torch.Tensor:
    return x / (x.square().mean(-1, keepdim=True) + eps).sqrt() * weight


def _turn(x: torch.Tensor, position: int, block_position: int, base: float) -> torch.Tensor:
    size, turned = x.shape[-1], x.clone()
    for pair in range(size // 2):
        which, idx = (position, pair) if pair < size // 4 else (block_position, pair - size // 4)
        angle = which * base ** (-2 * idx / (size // 2))
        x0, x1 = x[2 * pair], x[2 * pair + 1]
        turned[2 * pair] = x0 * math.cos(angle) - x1 * math.sin(angle)
        turned[2 * pair + 1] = x0 * math.sin(angle) + x1 * math.cos(angle)
    return turned


def _swiglu(x: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor) -> torch.Tensor:
    gate, up = (gate_up @ x).chunk(2)
    return down @ (gate * torch.sigmoid(gate) * up)


def _attend(
    x: torch.Tensor, weights: dict[str, torch.Tensor], model: GlmForCausalLM, layout: Infilling
) -> torch.Tensor:
    config, length = model.config, x.shape[0]
    heads, kv_heads, size = config.num_attention_heads, config.num_key_value_heads, config.head_dim
    qkv = (x @ weights["attention.qkv_proj.weight"].T).view(length, heads + 2 * kv_heads, size)
    q, k, v = qkv.split([heads, kv_heads, kv_heads], dim=1)
    if config.qk_norm:
        q = _norm(q, weights["attention.q_norm.weight"], config.rms_norm_eps)
        k = _norm(k, weights["attention.k_norm.weight"], config.rms_norm_eps)
    positions = list(zip(layout.position_ids, layout.block_position_ids, strict=True))
    allowed, outputs = attend_mask(layout.context_length, length), torch.zeros(length, heads, size, dtype=x.dtype)
    for head in range(heads):
        kv_head = head // (heads // kv_heads)
        keys = torch.stack([_turn(k[s, kv_head], *positions[s], config.rope_base) for s in range(length)])
        for t in range(length):
            scores = keys @ _turn(q[t, head], *positions[t], config.rope_base) / math.sqrt(size)
            outputs[t, head] = scores.masked_fill(~allowed[t], -math.inf).softmax(0) @ v[:, kv_head]
    return outputs.flatten(1) @ weights["attention.o_proj.weight"].T


def _mixture(x: torch.Tensor, weights: dict[str, torch.Tensor], model: GlmForCausalLM) -> torch.Tensor:
    scores = torch.sigmoid(weights["ffn.router.weight"] @ x)
    chosen = (scores + weights["ffn.router.selection_bias"]).argsort(descending=True)[: model.config.top_k]
    y = _swiglu(x, weights["ffn.shared_expert.gate_up_proj.weight"], weights["ffn.shared_expert.down_proj.weight"])
    for expert in chosen.tolist():
        gate = scores[expert] / scores[chosen].sum() * model.config.routed_scaling_factor
        gate_up, down = weights["ffn.experts.gate_up_proj"][expert], weights["ffn.experts.down_proj"][expert]
        y = y + gate * _swiglu(x, gate_up, down)
    return y


def _logits_by_formula(model: GlmForCausalLM, layout: Infilling) -> torch.Tensor:
    state = {name: tensor.double() for name, tensor in model.state_dict().items()}
    eps = model.config.rms_norm_eps
    x = state["model.embed_tokens.weight"][layout.input_ids]
    for layer in range(model.config.num_hidden_layers):
        prefix = f"model.layers.{layer}."
        weights = {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}
        x = x + _attend(_norm(x, weights["attention_norm.weight"], eps), weights, model, layout)
        normed = _norm(x, weights["ffn_norm.weight"], eps)
        x = x + torch.stack([_mixture(row, weights, model) for row in normed])
    return _norm(x, state["model.norm.weight"], eps) @ state["lm_head.weight"].T


@pytest.mark.parametrize("qk_norm", [False, True])
def test_logits_equal_the_formulas_of_the_papers(qk_norm: bool) -> None:
    model = tiny_glm(qk_norm=qk_norm, routed_scaling_factor=2.5)
    for layer in model.model.layers:
        torch.nn.init.normal_(layer.ffn.router.selection_bias, std=0.2)
        torch.nn.init.uniform_(layer.attention_norm.weight, 0.5, 1.5)
    with torch.no_grad():
        expected = _logits_by_formula(model, LAYOUT)
        logits = model(
            torch.tensor([LAYOUT.input_ids]),
            position_ids=torch.tensor([LAYOUT.position_ids]),
            block_position_ids=torch.tensor([LAYOUT.block_position_ids]),
            context_length=torch.tensor([LAYOUT.context_length]),
        ).logits[0]
    torch.testing.assert_close(logits.double(), expected, rtol=1e-4, atol=1e-4)
