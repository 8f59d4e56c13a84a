"""Weight-only quantization: INT8 per output row, INT4 per group of input columns, packed, dequantized where used.

GLM-130B's format: symmetric, scale = max|w| / (2^(bits-1) - 1) in fp16, INT4 two to a byte (`pack_int4`); INT4 scales
are per group of `group_size` columns, the last group of a row may be shorter. Attention and FFN/expert matrices inside
the layers are quantized; router, norms, embedding and heads stay as they are, bit for bit.

A quantized model carries its own description in `config.quantization`, and building a model from such a
configuration gives the packed modules, so it loads without the original weights.

Shapes: [..., O, I] weights; E experts, T tokens, K top-k, D model dim, F ffn dim.
"""

from typing import Any

import torch
from torch import nn

from kernels.dispatch import run_kernel
from kernels.int4_matmul import dequantize_int4, pack_int4, unpack_int4
from kernels.int8_matmul import dequantize_int8
from models.moe import Experts

__all__ = [
    "QUANT_METHOD",
    "QuantizedExperts",
    "QuantizedLinear",
    "build_quantized_modules",
    "dequantize",
    "pack_int4",
    "quantize_groups_int4",
    "quantize_model",
    "quantize_rows_int8",
    "size_report",
    "unpack_int4",
]

QUANT_METHOD = "glmflow"


def quantize_rows_int8(weight: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(int8 [..., O, I], fp16 scale [..., O])."""
    scale = _checked_scale(weight.float().abs().amax(-1) / 127)
    q = (weight.float() / _divisor(scale).unsqueeze(-1)).round().clamp(-127, 127)
    return q.to(torch.int8), scale


def quantize_groups_int4(weight: torch.Tensor, group_size: int) -> tuple[torch.Tensor, torch.Tensor]:
    """(packed int8 [..., O, I/2], fp16 scale [..., O, G]) with G = ceil(I / group_size); values in -7..7."""
    if group_size < 1:
        raise ValueError(f"group_size: want at least 1, got {group_size}; GLM-sized models use 64 or 128")
    num_columns = weight.shape[-1]
    num_groups = -(-num_columns // group_size)
    padded = nn.functional.pad(weight.float(), (0, num_groups * group_size - num_columns))
    grouped = padded.view(*weight.shape[:-1], num_groups, group_size)
    scale = _checked_scale(grouped.abs().amax(-1) / 7)
    q = (grouped / _divisor(scale).unsqueeze(-1)).round().clamp(-7, 7).to(torch.int8)
    return pack_int4(q.flatten(-2)[..., :num_columns].contiguous()), scale


def _checked_scale(scale: torch.Tensor) -> torch.Tensor:
    half = scale.half()
    if not bool(half.isfinite().all()):
        raise ValueError(
            f"weight: want finite values with scales up to 65504, got a scale of {float(scale.max())}; "
            "the model diverged, quantize an earlier checkpoint"
        )
    return half


def _divisor(scale: torch.Tensor) -> torch.Tensor:
    # an all-zero row (or one below fp16's range) has scale 0: divide by infinity, so that its values become 0
    return scale.float().masked_fill(scale == 0, float("inf"))


def dequantize(packed: torch.Tensor, scale: torch.Tensor, *, bits: int, group_size: int) -> torch.Tensor:
    """fp32 weights of either format."""
    return dequantize_int4(packed, scale, group_size) if bits == 4 else dequantize_int8(packed, scale)


class _PackedWeight(nn.Module):
    """The buffers of one quantized matrix or stack of matrices [..., O, I]."""

    packed: torch.Tensor
    scale: torch.Tensor

    def __init__(self, shape: tuple[int, ...], *, bits: int, group_size: int) -> None:
        super().__init__()
        self.bits, self.group_size, self.num_weights = bits, group_size, torch.Size(shape).numel()
        *leading, num_columns = shape
        if bits == 4 and num_columns % 2:
            raise ValueError(f"weight: want an even number of input columns for INT4, got {num_columns}; use INT8")
        packed_columns = num_columns // 2 if bits == 4 else num_columns
        scale_shape = (*leading, -(-num_columns // group_size)) if bits == 4 else tuple(leading)
        self.register_buffer("packed", torch.zeros(*leading, packed_columns, dtype=torch.int8))
        self.register_buffer("scale", torch.zeros(scale_shape, dtype=torch.float16))

    @torch.no_grad()
    def fill(self, weight: torch.Tensor) -> None:
        if self.bits == 4:
            self.packed, self.scale = quantize_groups_int4(weight, self.group_size)
        else:
            self.packed, self.scale = quantize_rows_int8(weight)

    @property
    def num_bytes(self) -> int:
        return self.packed.nbytes + self.scale.nbytes


class QuantizedLinear(nn.Module):
    """A Linear without bias on packed weights."""

    def __init__(self, in_features: int, out_features: int, *, bits: int, group_size: int) -> None:
        super().__init__()
        self.weight = _PackedWeight((out_features, in_features), bits=bits, group_size=group_size)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        weight = self.weight
        if weight.bits == 4:
            return run_kernel("int4_matmul", x, weight.packed, weight.scale, weight.group_size)
        return run_kernel("int8_matmul", x, weight.packed, weight.scale)


class QuantizedExperts(nn.Module):
    """The stacked experts on packed weights."""

    def __init__(self, num_experts: int, hidden_size: int, ffn_size: int, *, bits: int, group_size: int) -> None:
        super().__init__()
        self.gate_up_proj = _PackedWeight((num_experts, 2 * ffn_size, hidden_size), bits=bits, group_size=group_size)
        self.down_proj = _PackedWeight((num_experts, hidden_size, ffn_size), bits=bits, group_size=group_size)

    def forward(self, x_TD: torch.Tensor, gate_TK: torch.Tensor, expert_idx_TK: torch.Tensor) -> torch.Tensor:
        gate_up = (self.gate_up_proj.packed, self.gate_up_proj.scale)
        down = (self.down_proj.packed, self.down_proj.scale)
        if self.down_proj.bits == 4:
            group_size = self.down_proj.group_size
            return run_kernel("int4_grouped_experts", x_TD, gate_TK, expert_idx_TK, gate_up, down, group_size)
        return run_kernel("int8_grouped_experts", x_TD, gate_TK, expert_idx_TK, gate_up, down)


def build_quantized_modules(backbone: Any, spec: dict[str, Any]) -> list[tuple[nn.Module, nn.Module]]:
    """Swap the layers' matrices for empty packed ones; returns (original, replacement) pairs for the caller to fill."""
    bits, group_size = spec["bits"], spec["group_size"]
    if spec["quant_method"] != QUANT_METHOD or bits not in {4, 8}:
        raise ValueError(f"quantization: want {QUANT_METHOD!r} with bits 4 or 8, got {spec!r}; requantize it")
    swaps: list[tuple[nn.Module, nn.Module]] = []
    for parent in list(backbone.layers.modules()):
        for name, child in list(parent.named_children()):
            replacement: nn.Module
            if isinstance(child, nn.Linear):
                if child.bias is not None:
                    raise ValueError(
                        f"{name}: want a Linear without bias, got one with bias; keep it out of the layers"
                    )
                replacement = QuantizedLinear(child.in_features, child.out_features, bits=bits, group_size=group_size)
            elif isinstance(child, Experts):
                num_experts, hidden_size, ffn_size = child.down_proj.shape
                replacement = QuantizedExperts(num_experts, hidden_size, ffn_size, bits=bits, group_size=group_size)
            else:
                continue
            setattr(parent, name, replacement)
            swaps.append((child, replacement))
    return swaps


def quantize_model(model: Any, *, bits: int, group_size: int = 64) -> Any:
    """Quantize in place by rounding to nearest; returns the model, its configuration now says so."""
    if model.config.quantization is not None:
        raise ValueError(f"model: want full-precision weights, got {model.config.quantization!r}; load the original")
    spec = {"quant_method": QUANT_METHOD, "bits": bits, "group_size": group_size}
    for original, replacement in build_quantized_modules(model.model, spec):
        if isinstance(original, Experts) and isinstance(replacement, QuantizedExperts):
            replacement.gate_up_proj.fill(original.gate_up_proj.detach())
            replacement.down_proj.fill(original.down_proj.detach())
        elif isinstance(original, nn.Linear) and isinstance(replacement, QuantizedLinear):
            replacement.weight.fill(original.weight.detach())
    model.config.quantization = spec
    return model


def size_report(model: nn.Module) -> dict[str, float]:
    """Bytes of the quantized tensors (scales included), their bf16 size, the ratio, and all of the model's bytes."""
    packed = [module for module in model.modules() if isinstance(module, _PackedWeight)]
    quantized_bytes = sum(weight.num_bytes for weight in packed)
    bf16_bytes = 2 * sum(weight.num_weights for weight in packed)
    tensors = {tensor.data_ptr(): tensor.nbytes for tensor in (*model.parameters(), *model.buffers())}
    return {
        "quantized_bytes": float(quantized_bytes),
        "bf16_bytes": float(bf16_bytes),
        "ratio": quantized_bytes / bf16_bytes if bf16_bytes else 1.0,
        "model_bytes": float(sum(tensors.values())),
    }
