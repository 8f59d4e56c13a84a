"""Laws of the quantize stage."""

import json
from pathlib import Path
from typing import Any, Literal

import pytest
import torch

from infra.artifacts import Model
from infra.errors import GlmflowError
from infra.stores.local import LocalStore
from models.export import load_model
from stages.contract import StageContext
from stages.execution import read_history
from stages.quantize import STAGE, QuantizeConfig, QuantizeInputs
from stages.quantizers.base import Quantizer
from stages.quantizers.rtn import RoundToNearest
from tests.support.tiny_release import write_model


def context(tmp_path: Path, name: str = "work") -> StageContext:
    ctx = StageContext(LocalStore(tmp_path / "store"), tmp_path / name, declared_metrics=STAGE.metrics)
    ctx.scratch.mkdir(parents=True)
    return ctx


def inputs(tmp_path: Path, **changes: Any) -> QuantizeInputs:
    ctx = context(tmp_path, "make")
    return QuantizeInputs(model=ctx.store.put(write_model(tmp_path / "model", **changes), Model))


def config(bits: Literal[4, 8], **changes: Any) -> QuantizeConfig:
    return QuantizeConfig(quantizer=RoundToNearest(bits=bits), **changes)


def metrics_of(ctx: StageContext) -> dict[str, float]:
    return {point.name: point.value for point in read_history(ctx.metrics_path)}


@pytest.mark.parametrize(("bits", "max_ratio"), [(8, 0.53), (4, 0.30)])
def test_the_result_is_smaller_and_loads_without_the_original(tmp_path: Path, bits: Literal[4, 8], max_ratio: float):
    given, ctx = inputs(tmp_path), context(tmp_path)
    made = STAGE.run(config(bits), given, ctx).model
    found = metrics_of(ctx)
    assert found["quantize/size_ratio"] <= max_ratio
    assert found["quantize/file_bytes"] < found["quantize/full_file_bytes"]
    assert 0 < found["quantize/weight_error"] < (0.01 if bits == 8 else 0.15)
    model = load_model(ctx.store.get(made))
    full = load_model(ctx.store.get(given.model))
    token_ids = torch.arange(20)[None]
    with torch.inference_mode():
        difference = (model(input_ids=token_ids).logits - full(input_ids=token_ids).logits).abs().max()
    assert 0 < difference < (0.2 if bits == 8 else 2)
    assert {str(t.dtype) for n, t in model.state_dict().items() if n.endswith(".packed")} == {"torch.int8"}


def test_the_same_model_gives_the_same_bytes_and_keeps_the_rest_of_the_directory(tmp_path: Path):
    given, first, second = inputs(tmp_path), context(tmp_path, "a"), context(tmp_path, "b")
    made = STAGE.run(config(4), given, first).model
    assert STAGE.run(config(4), given, second).model == made
    source, target = first.store.get(given.model), first.store.get(made)
    for name in ("generation_config.json", "tokenizer.json", "chat_template.jinja", "modeling_glmflow.py"):
        assert (source / name).read_bytes() == (target / name).read_bytes(), name
    described = json.loads((target / "config.json").read_text())["quantization_config"]
    assert described == {"quant_method": "glmflow", "bits": 4, "group_size": 64}


def test_router_norms_and_embedding_keep_every_bit(tmp_path: Path):
    given, ctx = inputs(tmp_path), context(tmp_path)
    made = STAGE.run(config(4), given, ctx).model
    before = load_model(ctx.store.get(given.model)).state_dict()
    after = load_model(ctx.store.get(made)).state_dict()
    kept = [name for name in before if name in after]
    assert any("router" in name for name in kept)
    assert any("norm" in name for name in kept)
    assert "model.embed_tokens.weight" in kept
    assert all(torch.equal(before[name], after[name]) for name in kept)


def test_a_result_that_is_too_large_fails_the_stage(tmp_path: Path):
    with pytest.raises(GlmflowError, match=r"size ratio: want at most 0.1, got 0.5.*group_size"):
        STAGE.run(config(8, max_int8_size_ratio=0.1), inputs(tmp_path), context(tmp_path))


class Idle(Quantizer):
    """Claims to quantize and does nothing."""

    kind: Literal["idle"] = "idle"

    def quantize(self, model: Any) -> None:
        return None


def test_a_quantizer_that_does_nothing_is_found_out(tmp_path: Path):
    """ms-swift#9830: full-precision output, success reported."""
    idle = QuantizeConfig.model_construct(quantizer=Idle(bits=8), max_int8_size_ratio=0.53, max_int4_size_ratio=0.3)
    with pytest.raises(GlmflowError, match=r"want every matrix inside the layers, got [1-9][0-9]* left in full"):
        STAGE.run(idle, inputs(tmp_path), context(tmp_path))
