import pytest
import torch

from models.quantized import (
    QuantizedExperts,
    QuantizedLinear,
    dequantize,
    pack_int4,
    quantize_groups_int4,
    quantize_model,
    quantize_rows_int8,
    size_report,
    unpack_int4,
)
from tests.support.tiny_glm import tiny_glm


def test_int8_values_and_scales_follow_the_formula_per_row() -> None:
    weight = torch.tensor([[1.27, -0.64, 0.0], [0.0, -2.54, 1.28]])
    q, scale = quantize_rows_int8(weight)
    assert scale.dtype == torch.float16 and scale.tolist() == pytest.approx([0.01, 0.02], rel=1e-3)
    assert q.tolist() == [[127, -64, 0], [0, -127, 64]]


def test_int4_values_and_scales_follow_the_formula_per_group() -> None:
    weight = torch.tensor([[0.7, -0.3, 0.1, 0.0, 14.0, -6.0, 2.0, 1.1]])
    packed, scale = quantize_groups_int4(weight, 4)
    assert scale.tolist() == [[pytest.approx(0.1, rel=1e-3), 2.0]]
    assert unpack_int4(packed).tolist() == [[7, -3, 1, 0, 7, -3, 1, 1]]


@pytest.mark.parametrize(("bits", "largest_q"), [(8, 127), (4, 7)])
@pytest.mark.parametrize("num_columns", [64, 40])
def test_no_value_is_off_by_more_than_half_a_step(bits: int, largest_q: int, num_columns: int) -> None:
    weight = torch.randn(3, 5, num_columns, generator=torch.Generator().manual_seed(0))
    packed, scale = quantize_rows_int8(weight) if bits == 8 else quantize_groups_int4(weight, 16)
    error = (dequantize(packed, scale, bits=bits, group_size=16) - weight).abs()
    step = weight.abs().amax(-1, keepdim=True) / largest_q
    assert bool((error <= step * 0.502).all())  # fp16 scales add a little


def test_zero_rows_become_exact_zeros() -> None:
    for packed, scale, bits in [
        (*quantize_rows_int8(torch.zeros(2, 8)), 8),
        (*quantize_groups_int4(torch.zeros(2, 8), 4), 4),
    ]:
        assert not dequantize(packed, scale, bits=bits, group_size=4).any()


def test_diverged_weights_are_refused() -> None:
    with pytest.raises(ValueError, match="weight: want finite values with scales up to 65504"):
        quantize_rows_int8(torch.tensor([[float("nan"), 1.0]]))
    with pytest.raises(ValueError, match="group_size: want at least 1"):
        quantize_groups_int4(torch.ones(1, 2), 0)


@pytest.mark.parametrize("bits", [8, 4])
def test_only_the_layers_matrices_are_quantized_and_everything_else_stays_bitwise(bits: int) -> None:
    original = tiny_glm(qk_norm=True)
    kept = {
        name: tensor.clone()
        for name, tensor in original.state_dict().items()
        if "norm" in name or "router" in name or "embed" in name or "lm_head" in name
    }
    model = quantize_model(tiny_glm(qk_norm=True), bits=bits, group_size=16)
    state = model.state_dict()
    assert all(state[name].equal(tensor) for name, tensor in kept.items())
    assert {name.rsplit(".", 1)[1] for name in state if name not in kept} == {"packed", "scale"}
    layer = model.model.layers[0]
    assert isinstance(layer.attention.qkv_proj, QuantizedLinear) and isinstance(layer.ffn.experts, QuantizedExperts)
    assert isinstance(layer.ffn.shared_expert.down_proj, QuantizedLinear)


@pytest.mark.parametrize("bits", [8, 4])
def test_a_quantized_model_equals_the_model_with_dequantized_weights(bits: int) -> None:
    quantized, expected = quantize_model(tiny_glm(), bits=bits, group_size=16), tiny_glm()
    for name, module in quantized.named_modules():
        if not hasattr(module, "packed"):
            continue
        weight = dequantize(module.packed, module.scale, bits=bits, group_size=16)
        expected.get_parameter(name).data.copy_(weight)
    tokens = torch.arange(12).view(2, 6)
    assert quantized(tokens).logits.equal(expected(tokens).logits)


def test_the_sizes_are_those_the_formats_promise() -> None:
    config = {"hidden_size": 64, "expert_ffn_size": 64}
    int8 = size_report(quantize_model(tiny_glm(**config), bits=8))
    int4 = size_report(quantize_model(tiny_glm(**config), bits=4))
    full = size_report(tiny_glm(**config))
    assert int8["ratio"] <= 0.53 and int4["ratio"] == pytest.approx(4.25 / 16, rel=2e-3)
    assert int4["model_bytes"] < int8["model_bytes"] < full["model_bytes"]
    assert full["quantized_bytes"] == 0 and full["ratio"] == 1.0


def test_a_second_quantization_and_odd_columns_are_refused() -> None:
    model = quantize_model(tiny_glm(), bits=8)
    with pytest.raises(ValueError, match="model: want full-precision weights"):
        quantize_model(model, bits=4)
    with pytest.raises(ValueError, match="bits 4 or 8"):
        quantize_model(tiny_glm(), bits=5)
    with pytest.raises(ValueError, match="want an even number of input columns for INT4, got 3"):
        QuantizedLinear(3, 4, bits=4, group_size=64)


def test_pack_and_unpack_are_public_here() -> None:
    q = torch.tensor([[1, -2, -7, 7]], dtype=torch.int8)
    assert unpack_int4(pack_int4(q)).equal(q) and pack_int4(q).shape == (1, 2)
