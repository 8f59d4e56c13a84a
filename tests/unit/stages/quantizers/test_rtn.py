"""Laws of rounding to nearest as a quantizer."""

from pathlib import Path

import pytest
import torch
from pydantic import ValidationError

from models.export import load_model
from stages.quantizers.rtn import RoundToNearest
from tests.support.tiny_release import write_model


@pytest.mark.parametrize("bits", [8, 4])
def test_no_weight_moves_by_more_than_half_a_step(tmp_path: Path, bits: int):
    model = load_model(write_model(tmp_path / "model"))
    name = "model.layers.0.ffn.experts.down_proj"
    before = model.state_dict()[name].clone()
    RoundToNearest(bits=bits, group_size=32).quantize(model)
    assert model.config.quantization["bits"] == bits
    packed, scale = (model.state_dict()[f"{name}.{part}"] for part in ("packed", "scale"))
    from models.quantized import dequantize

    error = (dequantize(packed, scale, bits=bits, group_size=32) - before).abs()
    step = scale.float().unsqueeze(-1) if bits == 8 else scale.float().repeat_interleave(32, -1)
    # fp16 scales round too, so a value at the end of the range may lie a little beyond the last step
    assert bool((error <= 0.5 * step + before.abs() * 2**-10).all())
    assert torch.count_nonzero(error) > 0


def test_an_odd_group_is_refused():
    with pytest.raises(ValidationError, match="multiple of 2"):
        RoundToNearest(bits=4, group_size=7)
