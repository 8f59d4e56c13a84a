import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import load_file, save_file

from models.export import load_model, load_reward_model, save_model
from models.quantized import quantize_model
from tests.support.tiny_glm import tiny_glm, tiny_reward_model

TOKENS = torch.arange(12).view(2, 6)


class ToyTokenizer:
    def __init__(self, vocabulary: dict[str, int]) -> None:
        self._vocabulary = vocabulary

    def get_vocab(self) -> dict[str, int]:
        return self._vocabulary

    def convert_tokens_to_ids(self, token: str) -> int | None:
        return self._vocabulary.get(token)

    def save_pretrained(self, directory: Path) -> None:
        (directory / "tokenizer.json").write_text(json.dumps(self._vocabulary))


TOKENIZER = ToyTokenizer({"<|endoftext|>": 0, "<|user|>": 7, "<|observation|>": 9})


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_a_loaded_model_is_bitwise_the_saved_one_and_saves_to_the_same_bytes(bits: int | None, tmp_path: Path) -> None:
    model = tiny_glm()
    if bits:
        model = quantize_model(model, bits=bits, group_size=16)
    save_model(model, TOKENIZER, tmp_path / "first", sampling={"temperature": 0.7})
    random_state = torch.get_rng_state()
    loaded = load_model(tmp_path / "first")
    assert torch.get_rng_state().equal(random_state)
    assert loaded(TOKENS).logits.equal(model(TOKENS).logits) and not loaded.training
    assert (loaded.config.quantization or {}).get("bits") == bits
    save_model(loaded, TOKENIZER, tmp_path / "second", sampling={"temperature": 0.7})
    names = sorted(path.name for path in (tmp_path / "first").iterdir())
    assert names == sorted(path.name for path in (tmp_path / "second").iterdir())
    for name in names:
        assert (tmp_path / "first" / name).read_bytes() == (tmp_path / "second" / name).read_bytes(), name


def test_generation_stops_at_the_end_and_at_the_next_speaker(tmp_path: Path) -> None:
    save_model(tiny_glm(), TOKENIZER, tmp_path, sampling={"temperature": 0.7, "do_sample": True})
    generation = json.loads((tmp_path / "generation_config.json").read_text())
    assert generation == {"eos_token_id": [0, 7, 9], "pad_token_id": 0, "temperature": 0.7, "do_sample": True}
    with pytest.raises(ValueError, match=r"tokenizer: want the tokens .*, got none for \['<\|observation\|>'\]"):
        save_model(tiny_glm(), ToyTokenizer({"<|endoftext|>": 0, "<|user|>": 1}), tmp_path)


def test_a_tied_head_is_stored_once_and_stays_tied(tmp_path: Path) -> None:
    save_model(tiny_glm(), None, tmp_path)
    assert "lm_head.weight" not in load_file(tmp_path / "model.safetensors")
    loaded = load_model(tmp_path)
    assert loaded.lm_head.weight is loaded.model.embed_tokens.weight


def test_the_reward_model_keeps_its_trained_head(tmp_path: Path) -> None:
    model = tiny_reward_model()
    save_model(model, None, tmp_path)
    loaded = load_reward_model(tmp_path)
    assert loaded.score.weight.equal(model.score.weight) and loaded(TOKENS).logits.equal(model(TOKENS).logits)
    assert not (tmp_path / "generation_config.json").exists()


def test_a_head_is_never_made_up(tmp_path: Path) -> None:
    save_model(tiny_glm(), None, tmp_path / "lm")
    save_model(tiny_reward_model(), None, tmp_path / "reward")
    with pytest.raises(ValueError, match=r"missing \['score.weight'\].*load it as \['GlmForCausalLM'\]"):
        load_reward_model(tmp_path / "lm")
    with pytest.raises(ValueError, match=r"unexpected \['score.weight'\]"):
        load_model(tmp_path / "reward")


def test_missing_and_unexpected_weights_are_errors(tmp_path: Path) -> None:
    save_model(tiny_glm(), None, tmp_path)
    weights = load_file(tmp_path / "model.safetensors")
    norm = weights.pop("model.norm.weight")
    save_file(weights, tmp_path / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(ValueError, match=r"want exactly the weights of GlmForCausalLM, got missing \['model.norm.w"):
        load_model(tmp_path)
    save_file(weights | {"model.norm.weight": norm, "x": norm + 1}, tmp_path / "model.safetensors")
    with pytest.raises(ValueError, match=r"unexpected \['x'\]"):
        load_model(tmp_path)
    (tmp_path / "model.safetensors").unlink()
    with pytest.raises(ValueError, match=r"want a model directory with model\.safetensors, got none"):
        load_model(tmp_path)


def test_what_is_no_glm_is_not_saved(tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"model: want GlmForCausalLM or .*, got Linear; merge adapters"):
        save_model(torch.nn.Linear(1, 1), None, tmp_path)
