"""A model as a directory that any machine with transformers can load, and the strict way back.

The directory holds config.json, model.safetensors, generation_config.json, the tokenizer's files and one generated
modelling file, so `AutoModelForCausalLM.from_pretrained(directory, trust_remote_code=True)` needs nothing of ours. The
same model gives the same bytes. Loading refuses missing and unexpected weights; a head is never made up.
"""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors.torch import load_file

from models.bundle import MODELING_NAME, modeling_source
from models.config import GlmConfig
from models.glm import GlmForCausalLM, GlmForSequenceClassification, GlmPreTrainedModel
from models.weights_file import write_safetensors

STOP_TOKENS = ("<|endoftext|>", "<|user|>", "<|observation|>")
WEIGHTS_NAME = "model.safetensors"
_AUTO_CLASSES = {
    "AutoConfig": "GlmConfig",
    "AutoModel": "GlmBackbone",
    "AutoModelForCausalLM": "GlmForCausalLM",
    "AutoModelForSequenceClassification": "GlmForSequenceClassification",
}
_M = TypeVar("_M", bound=GlmPreTrainedModel)


def save_model(
    model: Any,
    tokenizer: Any,
    directory: Path | str,
    *,
    stop_ids: Sequence[int] | None = None,
    sampling: Mapping[str, float | int | bool] | None = None,
) -> None:
    """Write the directory; `stop_ids` defaults to the tokenizer's `STOP_TOKENS`; no tokenizer, no files of it."""
    if not isinstance(model, GlmForCausalLM | GlmForSequenceClassification):
        raise ValueError(  # noqa: TRY004  one kind of error for whoever translates
            f"model: want GlmForCausalLM or GlmForSequenceClassification, got {type(model).__name__}; "
            "merge adapters and unwrap it first"
        )
    directory = Path(directory)
    directory.mkdir(parents=True, exist_ok=True)
    if stop_ids is None:
        stop_ids = [] if tokenizer is None else _stop_ids(tokenizer)
    if tokenizer is not None:
        tokenizer.save_pretrained(directory)
    write_safetensors(directory / WEIGHTS_NAME, _stored_tensors(model))
    _write_json(directory / "config.json", _config_json(model))
    generation = {"pad_token_id": model.config.pad_token_id, "eos_token_id": list(stop_ids), **(sampling or {})}
    if isinstance(model, GlmForCausalLM):
        _write_json(directory / "generation_config.json", generation)
    (directory / f"{MODELING_NAME}.py").write_text(modeling_source(), encoding="utf-8")


def _stop_ids(tokenizer: Any) -> list[int]:
    ids = [tokenizer.convert_tokens_to_ids(token) for token in STOP_TOKENS]
    known = set(tokenizer.get_vocab())
    unknown = [token for token in STOP_TOKENS if token not in known]
    if unknown:
        raise ValueError(f"tokenizer: want the tokens {STOP_TOKENS}, got none for {unknown}; pass stop_ids")
    return [int(token_id) for token_id in ids]


def _tied_names(model: GlmPreTrainedModel) -> set[str]:
    return {"lm_head.weight"} if isinstance(model, GlmForCausalLM) and model.config.tie_word_embeddings else set()


def _stored_tensors(model: GlmPreTrainedModel) -> dict[str, torch.Tensor]:
    tied = _tied_names(model)
    state = model.state_dict()
    return {name: tensor for name, tensor in state.items() if name not in tied}


def _config_json(model: GlmPreTrainedModel) -> dict[str, Any]:
    config: dict[str, Any] = json.loads(model.config.to_json_string(use_diff=True))
    config.pop("_name_or_path", None)  # where it was loaded from is not what it is
    config["architectures"] = [type(model).__name__]
    config["dtype"] = str(model.dtype).removeprefix("torch.")
    config["auto_map"] = {auto: f"{MODELING_NAME}.{name}" for auto, name in _AUTO_CLASSES.items()}
    if (spec := config.pop("quantization", None)) is not None:
        config["quantization_config"] = spec
    return config


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, sort_keys=True, ensure_ascii=False) + "\n", encoding="utf-8")


def load_model(directory: Path | str) -> GlmForCausalLM:
    """The language model in evaluation mode, full precision or quantized as its configuration says."""
    return _load(GlmForCausalLM, Path(directory))


def load_reward_model(directory: Path | str) -> GlmForSequenceClassification:
    """The reward model in evaluation mode, with the head that was trained."""
    return _load(GlmForSequenceClassification, Path(directory))


def _load(model_class: type[_M], directory: Path) -> _M:
    for name in ("config.json", WEIGHTS_NAME):
        if not (directory / name).is_file():
            raise ValueError(f"{directory}: want a model directory with {name}, got none; save the model again")
    config = GlmConfig.from_pretrained(directory)
    with torch.random.fork_rng(devices=[]):  # building draws initial weights; loading must not move the caller's stream
        model = model_class(config)
    state = load_file(directory / WEIGHTS_NAME)
    expected = set(model.state_dict()) - _tied_names(model)
    missing, unexpected = sorted(expected - set(state)), sorted(set(state) - expected)
    if missing or unexpected:
        raise ValueError(
            f"{directory}: want exactly the weights of {model_class.__name__}, got missing {missing[:5]} and "
            f"unexpected {unexpected[:5]}; load it as {config.architectures or 'what it was saved as'}"
        )
    dtype = config.dtype
    if isinstance(dtype, torch.dtype) and dtype != torch.float32:
        model = model.to(dtype)
    model.load_state_dict(state, strict=False)
    model.tie_weights()
    model.eval()
    return model
