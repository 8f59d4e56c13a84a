import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

from models.perplexity import bits_per_byte, heldout_bits_per_byte, score_documents, unigram_nats, windows_of
from models.token_shards import TokenShards
from tests.support.tiny_tokens import VOCAB_SIZE, tiny_model, write_shards


@pytest.fixture
def shards(tmp_path: Path) -> TokenShards:
    return write_shards(tmp_path, [30, 12], [40, 7, 1, 23])


class UniformModel(torch.nn.Module):
    """Every token is equally likely."""

    def base_model(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> SimpleNamespace:
        return SimpleNamespace(last_hidden_state=torch.zeros(*input_ids.shape, VOCAB_SIZE))

    def get_output_embeddings(self) -> torch.nn.Module:
        return torch.nn.Identity()


@pytest.mark.parametrize(("window", "stride"), [(16, 16), (16, 5), (16, 1), (64, 32)])
def test_every_token_of_every_document_is_scored_exactly_once(window: int, stride: int):
    sizes = [40, 7, 1, 16, 17]
    found = windows_of(sizes, window_tokens=window, stride_tokens=stride)
    for doc_idx, size in enumerate(sizes):
        mine = [w for w in found if w.doc_idx == doc_idx]
        assert [t for w in mine for t in range(w.score_from, w.end)] == list(range(size))
        assert all(w.start <= w.score_from < w.end and w.end - w.start <= window for w in mine)


def test_a_uniform_model_costs_log2_of_the_vocabulary_a_token(shards: TokenShards):
    quality = heldout_bits_per_byte(UniformModel(), shards.heldout, end_id=0, window_tokens=16, stride_tokens=8)
    assert quality.num_tokens == 71 and quality.num_bytes == 142
    assert quality.total == pytest.approx(71 * math.log2(VOCAB_SIZE) / 142)
    assert set(quality.by_domain) == {"prose", "review"} and set(quality.by_lang) == {"en", "zh"}


def test_batching_and_padding_do_not_change_a_documents_score(shards: TokenShards):
    model = tiny_model()
    documents = [shards.heldout.tokens(idx) for idx in range(4)]
    options = {"end_id": 0, "window_tokens": 16, "stride_tokens": 8}
    together = score_documents(model, documents, batch_tokens=4096, **options)
    alone = [score_documents(model, [document], batch_tokens=1, **options)[0] for document in documents]
    np.testing.assert_allclose(together, alone, rtol=1e-5)


def test_a_document_that_fits_the_window_has_its_likelihood_after_a_document_end(shards: TokenShards):
    model = tiny_model().eval()
    document = shards.heldout.tokens(1)
    input_ids = torch.tensor([[0, *document.tolist()]])
    with torch.no_grad():
        logprobs = model(input_ids=input_ids).logits.log_softmax(-1)[0]
    expected = -sum(float(logprobs[idx, token]) for idx, token in enumerate(document.tolist()))
    nats = score_documents(model, [document], end_id=0, window_tokens=16, stride_tokens=16)
    assert nats[0] == pytest.approx(expected, rel=1e-5)


def test_the_model_is_left_in_the_mode_it_was_in(shards: TokenShards):
    for is_training in (True, False):
        model = tiny_model().train(is_training)
        score_documents(model, [shards.heldout.tokens(2)], end_id=0, window_tokens=4, stride_tokens=4)
        assert model.training is is_training


def test_the_parts_add_up_to_the_total(shards: TokenShards):
    nats = np.array([4.0, 3.0, 2.0, 1.0])
    quality = bits_per_byte(nats, shards.heldout)
    size_of = {"prose": 2 * (40 + 1), "review": 2 * (7 + 23)}
    parts = sum(quality.by_domain[domain] * size for domain, size in size_of.items())
    assert parts * math.log(2) == pytest.approx(10.0)
    assert quality.total * math.log(2) * 142 == pytest.approx(10.0)


def test_the_unigram_is_the_add_one_smoothed_frequency_without_document_ends():
    train = np.array([0, 3, 3, 5, 0, 3, 0], dtype=np.uint16)
    nats = unigram_nats([np.array([3, 4]), np.array([5])], train, vocab_size=8, end_id=0)
    assert nats == pytest.approx([-math.log(4 / 12) - math.log(1 / 12), -math.log(2 / 12)])


def test_no_model_of_single_tokens_beats_the_unigram_on_its_own_training_tokens():
    rng = np.random.default_rng(0)
    train = rng.integers(1, 8, size=4000).astype(np.uint16)
    frequencies = np.bincount(train, minlength=8)[1:] / len(train)
    entropy = -(frequencies * np.log(frequencies)).sum()
    assert unigram_nats([train], train, vocab_size=8, end_id=0)[0] / len(train) == pytest.approx(entropy, rel=1e-3)


def test_an_empty_split_is_refused(tmp_path: Path):
    empty = write_shards(tmp_path, [3], []).heldout
    with pytest.raises(ValueError, match="held-out split: want at least one document, got 0"):
        heldout_bits_per_byte(UniformModel(), empty, end_id=0, window_tokens=16, stride_tokens=8)


def test_a_stride_longer_than_the_window_would_leave_tokens_out_and_is_refused():
    with pytest.raises(ValueError, match=r"stride_tokens: want 1\.\.window_tokens \(4\), got 5"):
        windows_of([9], window_tokens=4, stride_tokens=5)
