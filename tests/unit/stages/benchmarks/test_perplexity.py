"""Laws of the perplexity benchmark."""

import math
from pathlib import Path

import pytest
import torch

from stages.benchmarks.perplexity import Perplexity
from tests.support.tiny_release import tiny_subject


def test_it_is_the_mean_loss_of_one_plain_forward_pass_a_document(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    found = Perplexity().measure(subject).metrics
    split = subject.shards.heldout
    nats = 0.0
    for index in range(len(split)):
        tokens = torch.tensor([subject.shards.end_id, *split.tokens(index).tolist()])
        with torch.inference_mode():
            logits = subject.model(input_ids=tokens[None, :-1]).logits[0]
        nats += float(torch.nn.functional.cross_entropy(logits, tokens[1:], reduction="sum"))
    assert found["eval/perplexity"] == pytest.approx(math.exp(nats / split.num_text_tokens), rel=1e-4)
    assert found["eval/bits_per_byte"] == pytest.approx(nats / math.log(2) / int(split.num_bytes_N.sum()), rel=1e-4)


def test_the_parts_add_up_to_the_whole(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    found = Perplexity().measure(subject).metrics
    split = subject.shards.heldout
    num_bytes = {lang: 0 for lang in split.langs}
    for lang, size in zip(split.langs, split.num_bytes_N.tolist(), strict=True):
        num_bytes[lang] += size
    total = sum(found[f"eval/bits_per_byte/lang/{lang}"] * size for lang, size in num_bytes.items())
    assert total / sum(num_bytes.values()) == pytest.approx(found["eval/bits_per_byte"])
    assert found["eval/bits_per_byte/domain/doc"] == pytest.approx(found["eval/bits_per_byte"])
    assert found["eval/unigram_bits_per_byte"] > 0


def test_each_documents_bits_are_an_item_and_add_up_to_the_whole(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    found = Perplexity().measure(subject)
    bits = found.items["document_bits"]
    assert list(bits) == subject.shards.heldout.doc_ids
    assert sum(bits.values()) == pytest.approx(found.metrics["eval/bits_per_byte"] * found.metrics["eval/num_bytes"])
