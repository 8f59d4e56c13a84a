"""A tokenizer and tokens of a few documents in a store, and a pretraining config that takes a second."""

from pathlib import Path
from typing import Any

from infra.artifacts import Tokenizer, Tokens
from infra.stores.local import LocalStore
from models.token_shards import TokenDocument, TokenWriter
from models.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer
from stages.contract import StageContext
from stages.pretrain import STAGE, PretrainConfig, PretrainInputs

TEXTS = [f"Item {idx}: " + "the quick brown fox jumps over the lazy dog. " * (1 + idx % 5) for idx in range(40)]
SMALL: dict[str, Any] = {
    "model": {
        "hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 16,
        "num_experts": 4, "expert_ffn_size": 16,
    },
    "train_tokens": 2000, "sequence_tokens": 32, "rows_per_step": 4, "rows_per_micro_batch": 4,
    "checkpoint_every_steps": 3, "eval_window_tokens": 32, "eval_stride_tokens": 16,
}  # fmt: skip


def config_of(**changes: Any) -> PretrainConfig:
    """The small config with some fields changed."""
    return PretrainConfig.model_validate(SMALL | changes)


def prepare(root: Path, texts: list[str] = TEXTS, num_heldout: int = 4) -> tuple[LocalStore, PretrainInputs]:
    """Put tokenizer and tokens into the store at `root`/store; the first `num_heldout` texts are held out."""
    store = LocalStore(root / "store")
    save_tokenizer(train_tokenizer(TEXTS, vocab_size=320), root / "tokenizer")
    tokenizer = load_tokenizer(root / "tokenizer")
    tokenizer_ref = store.put(root / "tokenizer", Tokenizer)
    made = [
        TokenDocument(f"d{idx}", "en", ("prose", "notes")[idx % 2], len(text.encode()), tokenizer(text)["input_ids"])
        for idx, text in enumerate(texts)
    ]
    writer = TokenWriter(root / "tokens", vocab_size=len(tokenizer), end_id=tokenizer.eos_token_id)
    writer.add("heldout", made[:num_heldout])
    writer.add("train", made[num_heldout:])
    writer.close(tokenizer=tokenizer_ref.digest)
    return store, PretrainInputs(tokens=store.put(root / "tokens", Tokens), tokenizer=tokenizer_ref)


def context(store: LocalStore, workdir: Path, seed: int = 0) -> StageContext:
    """A fresh context of the pretrain stage."""
    ctx = StageContext(store, workdir, seed, declared_metrics=STAGE.metrics)
    for path in (ctx.scratch, ctx.checkpoint_dir):
        path.mkdir(parents=True, exist_ok=True)
    return ctx
