"""Synthetic token shards with known contents, and a GLM small enough to train in a second."""

from pathlib import Path

import numpy as np
import torch

from models.batches import ObjectiveMix, PretrainBatches, SpecialIds
from models.config import GlmConfig
from models.glm import GlmForCausalLM
from models.token_shards import TokenDocument, TokenShards, TokenSplit, TokenWriter

VOCAB_SIZE = 64
NUM_SPECIAL = 10
SPECIAL = SpecialIds(mask_id=1, gmask_id=2, sop_id=4, eop_id=5, end_id=0)
MIXED = ObjectiveMix(language_ratio=0.5, span_ratio=0.25, document_ratio=0.25)


def documents(lengths: list[int], *, prefix: str = "doc", seed: int = 0) -> list[TokenDocument]:
    """One document of each length; text tokens follow a fixed successor rule, so there is something to learn."""
    rng = np.random.default_rng(seed)
    made = []
    for idx, length in enumerate(lengths):
        token = int(rng.integers(VOCAB_SIZE - NUM_SPECIAL))
        tokens = []
        for _ in range(length):
            tokens.append(NUM_SPECIAL + token)
            token = (token * 3 + int(rng.integers(2))) % (VOCAB_SIZE - NUM_SPECIAL)
        lang, domain = (("en", "prose"), ("zh", "review"))[idx % 2]
        made.append(TokenDocument(f"{prefix}-{idx}", lang, domain, 2 * length, tokens))
    return made


def write_shards(directory: Path, train: list[int], heldout: list[int], **facts: str) -> TokenShards:
    """Shards with documents of these lengths."""
    writer = TokenWriter(directory, vocab_size=VOCAB_SIZE, end_id=SPECIAL.end_id)
    writer.add("train", documents(train))
    writer.add("heldout", documents(heldout, prefix="held", seed=1))
    writer.close(**facts)
    return TokenShards(directory)


def batches_over(split: TokenSplit, mix: ObjectiveMix = MIXED, *, length: int = 32, seed: int = 0) -> PretrainBatches:
    """Batches of rows of `length` positions."""
    return PretrainBatches(split, SPECIAL, mix, sequence_tokens=length, seed=seed)


def tiny_model(seed: int = 0, **changes: int) -> GlmForCausalLM:
    """Two layers, four experts."""
    torch.manual_seed(seed)
    shape = {
        "vocab_size": VOCAB_SIZE, "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2,
        "num_key_value_heads": 2, "head_dim": 16, "num_experts": 4, "num_experts_per_tok": 2, "expert_ffn_size": 16,
        "eos_token_id": 0,
    }  # fmt: skip
    return GlmForCausalLM(GlmConfig(**(shape | changes)))
