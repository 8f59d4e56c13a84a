"""Stage `tokenizer`: train a byte-level BPE with GLM's special tokens and save it with the chat template.

It is trained on an even sample of the corpus: documents in the order of the hash of their id, until the budget is
reached, so the sample has the corpus's mixture and does not depend on the order of documents.
"""

import hashlib

from pydantic import Field, PositiveInt

from infra.artifacts import DedupedCorpus, Tokenizer
from stages.contract import Headline, Stage, StageContext, StageModel


class TokenizerConfig(StageModel):
    """Size of the vocabulary and of the training sample."""

    vocab_size: PositiveInt = Field(default=8192, ge=266, description="entries, special tokens and bytes included")
    max_train_bytes: PositiveInt = Field(default=10_000_000, description="training sample, in UTF-8 bytes")


class TokenizerInputs(StageModel):
    """Documents without duplicates."""

    corpus: DedupedCorpus


class TokenizerOutputs(StageModel):
    """A Hugging Face fast tokenizer."""

    tokenizer: Tokenizer


def run(config: TokenizerConfig, inputs: TokenizerInputs, ctx: StageContext) -> TokenizerOutputs:
    """Train, save, and measure the bytes a token stands for, by language."""
    from models.tokenizer import save_tokenizer, train_tokenizer
    from stages.records import read_corpus

    documents = sorted(read_corpus(ctx.store.get(inputs.corpus)), key=lambda d: hashlib.sha256(d.id.encode()).digest())
    sample, num_bytes = [], 0
    for document in documents:
        if num_bytes >= config.max_train_bytes:
            break
        sample.append(document)
        num_bytes += len(document.text.encode())
    tokenizer = train_tokenizer((document.text for document in sample), config.vocab_size)
    num_entries = tokenizer.get_vocab_size()
    if num_entries < config.vocab_size:
        ctx.log(f"vocabulary of {num_entries} entries instead of {config.vocab_size}: the corpus has no more pairs")
    out = ctx.scratch / "tokenizer"
    save_tokenizer(tokenizer, out)
    ctx.log_metric("tokenizer/vocab_size", num_entries)
    ctx.log_metric("tokenizer/train_bytes", num_bytes)
    measured = sample[:2000]
    for lang in ("all", *sorted({document.lang for document in measured})):
        texts = [document.text for document in measured if lang in ("all", document.lang)]
        num_tokens = sum(len(encoding.ids) for encoding in tokenizer.encode_batch(texts, add_special_tokens=False))
        name = "tokenizer/bytes_per_token" + ("" if lang == "all" else f"/{lang}")
        ctx.log_metric(name, sum(len(text.encode()) for text in texts) / max(num_tokens, 1))
    return TokenizerOutputs(tokenizer=ctx.store.put(out, Tokenizer))


STAGE = Stage(
    name="tokenizer",
    config=TokenizerConfig,
    inputs=TokenizerInputs,
    outputs=TokenizerOutputs,
    run=run,
    metrics=("tokenizer/vocab_size", "tokenizer/train_bytes", "tokenizer/bytes_per_token*"),
    headline=Headline("bytes a token", after="tokenizer/bytes_per_token"),
)
