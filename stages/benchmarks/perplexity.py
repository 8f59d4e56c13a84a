"""Held-out perplexity in plain language-model mode over every byte of the held-out documents.

Perplexity counts per token, bits per byte does not depend on the tokenizer; both come from the same nats. The unigram
figure is what add-one smoothed token frequencies of the training split reach.
"""

import math
from typing import Literal

from pydantic import Field

from stages.benchmarks.base import Benchmark, Measurement
from stages.subject import Subject


class Perplexity(Benchmark):
    """Perplexity, bits per byte in all, by domain and by language."""

    kind: Literal["perplexity"] = "perplexity"
    window_tokens: int = Field(default=512, ge=2, description="tokens read at once; at most the model's context")
    stride_tokens: int = Field(default=256, ge=1, description="tokens scored in each further window of a long document")

    def measure(self, subject: Subject) -> Measurement:
        """Score every byte."""
        from models.perplexity import bits_per_byte, heldout_bits_per_byte, unigram_nats

        shards = subject.shards
        split = shards.heldout
        window_tokens = min(self.window_tokens, subject.model.config.max_position_embeddings)
        found = heldout_bits_per_byte(
            subject.model,
            split,
            end_id=shards.end_id,
            window_tokens=window_tokens,
            stride_tokens=min(self.stride_tokens, window_tokens),
            on_progress=lambda done, total: subject.progress(done, total, "windows"),
        )
        documents = [split.tokens(doc_idx) for doc_idx in range(len(split))]
        nats = unigram_nats(documents, shards.train.stream_S, vocab_size=shards.vocab_size, end_id=shards.end_id)
        metrics = {
            "eval/bits_per_byte": found.total,
            "eval/perplexity": math.exp(found.total * math.log(2) * found.num_bytes / found.num_tokens),
            "eval/unigram_bits_per_byte": bits_per_byte(nats, split).total,
            "eval/num_bytes": float(found.num_bytes),
            "eval/num_tokens": float(found.num_tokens),
        }
        metrics |= {f"eval/bits_per_byte/domain/{name}": value for name, value in found.by_domain.items()}
        metrics |= {f"eval/bits_per_byte/lang/{name}": value for name, value in found.by_lang.items()}
        items: dict[str, dict[str, float | str]] = {"document_bits": {**found.document_bits}}
        return Measurement(metrics, items)
