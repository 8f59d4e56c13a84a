"""A GLM small enough for a unit test, with weights large enough that every part of it matters."""

from typing import Any

import torch

from models.config import GlmConfig
from models.glm import GlmForCausalLM, GlmForSequenceClassification

VOCAB_SIZE = 64


def tiny_config(**overrides: Any) -> GlmConfig:
    """2 layers of 32, 8 experts top-2 plus a shared one, 4 query heads on 2 kv heads."""
    settings: dict[str, Any] = {
        "vocab_size": VOCAB_SIZE,
        "hidden_size": 32,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 8,
        "expert_ffn_size": 16,
        "ffn_size": 48,
        "initializer_range": 0.3,
    }
    return GlmConfig(**(settings | overrides))


def tiny_glm(seed: int = 0, **overrides: Any) -> GlmForCausalLM:
    """A language model in evaluation mode."""
    torch.manual_seed(seed)
    return GlmForCausalLM(tiny_config(**overrides)).eval()


def tiny_reward_model(seed: int = 0, **overrides: Any) -> GlmForSequenceClassification:
    """A one-label classifier in evaluation mode."""
    torch.manual_seed(seed)
    return GlmForSequenceClassification(tiny_config(num_labels=1, **overrides)).eval()
