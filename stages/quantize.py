"""Pack a model's weights to INT8 or INT4 (run once for each).

Artifact: a model directory like any other, whose `config.json` says how it is packed; it loads without the original
weights and runs through the same code. Embedding, norms and router keep full precision. The stage reads the artifact
back, compares its logits bit for bit with the model in memory, and refuses a result that is not smaller.
"""

from pathlib import Path
from typing import Any

from pydantic import Field

from infra.artifacts import Model, QuantizedModel
from infra.errors import GlmflowError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.quantizers import AnyQuantizer
from stages.quantizers.rtn import RoundToNearest


class QuantizeConfig(StageModel):
    """How to quantize, and what the result has to be."""

    quantizer: AnyQuantizer = Field(default=RoundToNearest(bits=8), description="method and bits")
    max_int8_size_ratio: float = Field(
        default=0.53, gt=0, le=1, description="INT8: largest size of the packed tensors, as a share of their bf16 size"
    )
    max_int4_size_ratio: float = Field(
        default=0.30, gt=0, le=1, description="INT4: largest size of the packed tensors, as a share of their bf16 size"
    )

    @property
    def max_size_ratio(self) -> float:
        """The limit that applies to these bits."""
        return self.max_int4_size_ratio if self.quantizer.bits == 4 else self.max_int8_size_ratio


class QuantizeInputs(StageModel):
    """What is quantized."""

    model: Model


class QuantizeOutputs(StageModel):
    """What comes out."""

    model: QuantizedModel


def run(config: QuantizeConfig, inputs: QuantizeInputs, ctx: StageContext) -> QuantizeOutputs:
    """Quantize, save, read back, compare."""
    from models.export import WEIGHTS_NAME, load_model
    from models.quantized import size_report

    source, target = ctx.store.get(inputs.model), ctx.scratch / "model"
    model = load_model(source)
    full = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    config.quantizer.quantize(model)
    packed = {name.removesuffix(".packed") for name in model.state_dict() if name.endswith(".packed")}
    _save(model, source, target)
    sizes = size_report(model)
    metrics = {
        "quantize/size_ratio": sizes["ratio"],
        "quantize/file_bytes": (target / WEIGHTS_NAME).stat().st_size,
        "quantize/full_file_bytes": (source / WEIGHTS_NAME).stat().st_size,
        "quantize/num_tensors": len(packed),
        "quantize/weight_error": weight_error(model, full, packed),
    }
    for name, value in metrics.items():
        ctx.log_metric(name, value)
    if problems := _problems(config, metrics, len(_quantizable(full)) - len(packed)):
        raise GlmflowError(f"model {inputs.model.short} to INT{config.quantizer.bits}: {'; '.join(problems)}")
    _check_read_back(model, load_model(target))
    return QuantizeOutputs(model=ctx.store.put(target, QuantizedModel))


def _save(model: Any, source: Path, target: Path) -> None:
    """Everything but the weights and the packing is as in the source, generation settings included."""
    import json

    from models.export import save_model
    from models.tokenizer import load_tokenizer

    generation = json.loads((source / "generation_config.json").read_text(encoding="utf-8"))
    stop_ids = generation.pop("eos_token_id")
    generation.pop("pad_token_id", None)
    save_model(model, load_tokenizer(source), target, stop_ids=stop_ids, sampling=generation)


def _quantizable(full: dict[str, Any]) -> list[str]:
    """Names of the matrices inside the layers, stacked experts included, without the router's."""
    return [name for name, tensor in full.items() if ".layers." in name and tensor.dim() >= 2 and "router" not in name]


def weight_error(model: Any, full: dict[str, Any], packed_names: set[str]) -> float:
    """|W - dequantized W| / |W| over all packed tensors (Frobenius norms)."""
    from models.quantized import dequantize

    state, spec = model.state_dict(), model.config.quantization
    error = norm = 0.0
    for name in sorted(packed_names):
        packed, scale = state[f"{name}.packed"], state[f"{name}.scale"]
        restored = dequantize(packed, scale, bits=spec["bits"], group_size=spec["group_size"])
        error += float((full[name].float() - restored).double().square().sum())
        norm += float(full[name].double().square().sum())
    return float((error / norm) ** 0.5) if norm else 0.0


def _problems(config: QuantizeConfig, metrics: dict[str, float], num_left_out: int) -> list[str]:
    problems = []
    if num_left_out:
        problems.append(f"packed tensors: want every matrix inside the layers, got {num_left_out} left in full")
    if metrics["quantize/size_ratio"] > config.max_size_ratio:
        ratio = metrics["quantize/size_ratio"]
        problems.append(
            f"size ratio: want at most {config.max_size_ratio}, got {ratio:.4f}; a larger group_size needs fewer scales"
        )
    if metrics["quantize/file_bytes"] >= metrics["quantize/full_file_bytes"]:
        sizes = f"{metrics['quantize/file_bytes']:.0f} of {metrics['quantize/full_file_bytes']:.0f} bytes"
        problems.append(f"weight file: want it smaller than the original, got {sizes}; nothing was packed")
    return problems


def _check_read_back(model: Any, loaded: Any) -> None:
    import torch

    token_ids = torch.arange(min(32, model.config.vocab_size))[None]
    with torch.inference_mode():
        same = torch.equal(model(input_ids=token_ids).logits, loaded(input_ids=token_ids).logits)
    if not same:
        raise GlmflowError("quantized model: want the saved file to give the logits of the model in memory, got others")


STAGE = Stage(
    name="quantize",
    config=QuantizeConfig,
    inputs=QuantizeInputs,
    outputs=QuantizeOutputs,
    run=run,
    metrics=(
        "quantize/size_ratio",
        "quantize/file_bytes",
        "quantize/full_file_bytes",
        "quantize/num_tensors",
        "quantize/weight_error",
    ),
    headline=Headline("packed size / bf16 size", after="quantize/size_ratio", higher_is_better=False),
)
