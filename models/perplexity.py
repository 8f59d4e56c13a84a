"""Held-out quality in bits per byte, in plain language-model mode, over every byte of the documents.

Each text token is scored exactly once, with the document end before the document as its first context; the end token
itself is no byte and is not scored. A document longer than the window is read by sliding windows: each window scores
its last `stride_tokens` targets (the first window all of its targets). Bits per byte = total nats / ln 2 / total UTF-8
bytes, so it compares across tokenizers. Works for any causal model with Hugging Face's call, quantized ones included.

Shapes: B windows, T tokens, V vocabulary, N documents.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import torch
from torch.nn import functional

from models.token_shards import TokenSplit

_TOKENS_PER_COUNT = 1 << 22


class Window(NamedTuple):
    """Targets [start, end) of a document are read, [score_from, end) are scored."""

    doc_idx: int
    start: int
    score_from: int
    end: int


@dataclass(frozen=True)
class BitsPerByte:
    """The total, and the parts by domain and by language; the bits of each document by its id."""

    total: float
    document_bits: dict[str, float]
    by_domain: dict[str, float]
    by_lang: dict[str, float]
    num_tokens: int
    num_bytes: int


def windows_of(num_tokens_N: Sequence[int], *, window_tokens: int, stride_tokens: int) -> list[Window]:
    """Windows that score every token of every document once."""
    if not 1 <= stride_tokens <= window_tokens:
        raise ValueError(f"stride_tokens: want 1..window_tokens ({window_tokens}), got {stride_tokens}; lower it")
    found: list[Window] = []
    for doc_idx, num_tokens in enumerate(num_tokens_N):
        scored = 0
        while scored < num_tokens:
            end = min(int(num_tokens), window_tokens if scored == 0 else scored + stride_tokens)
            found.append(Window(doc_idx, max(0, end - window_tokens), scored, end))
            scored = end
    return found


@torch.no_grad()
def score_documents(
    model: Any,
    documents: Sequence[np.ndarray],
    *,
    end_id: int,
    window_tokens: int,
    stride_tokens: int,
    batch_tokens: int = 4096,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> np.ndarray:
    """Nats of each document under the model, [N] float64. `batch_tokens` bounds a forward pass, padding included."""
    windows = windows_of([len(d) for d in documents], window_tokens=window_tokens, stride_tokens=stride_tokens)
    windows.sort(
        key=lambda w: (w.start - w.end, w.doc_idx, w.start)
    )  # longest first: little padding, early memory peak
    nats_N = np.zeros(len(documents))
    was_training = model.training
    model.eval()
    done = 0
    while done < len(windows):
        longest = windows[done].end - windows[done].start
        group = windows[done : done + max(1, batch_tokens // longest)]
        for window, nats in zip(group, _score(model, documents, group, end_id), strict=True):
            nats_N[window.doc_idx] += nats
        done += len(group)
        on_progress(done, len(windows))
    model.train(was_training)
    return nats_N


def _score(model: Any, documents: Sequence[np.ndarray], group: Sequence[Window], end_id: int) -> list[float]:
    length = max(w.end - w.start for w in group)
    input_ids_BT = torch.full((len(group), length), end_id)
    targets_BT = torch.zeros_like(input_ids_BT)
    is_real_BT = torch.zeros_like(input_ids_BT, dtype=torch.bool)
    is_scored_BT = torch.zeros_like(is_real_BT)
    for row, window in enumerate(group):
        text = documents[window.doc_idx].astype(np.int64)
        size = window.end - window.start
        targets_BT[row, :size] = torch.from_numpy(text[window.start : window.end])
        if window.start > 0:
            input_ids_BT[row, 0] = int(text[window.start - 1])
        input_ids_BT[row, 1:size] = targets_BT[row, : size - 1]
        is_real_BT[row, :size] = True
        is_scored_BT[row, window.score_from - window.start : size] = True
    # the head is half of the work: only where it is scored, which a sliding window's first half is not
    hidden_BTD = model.base_model(input_ids=input_ids_BT, attention_mask=is_real_BT).last_hidden_state
    logits = model.get_output_embeddings()(hidden_BTD[is_scored_BT]).float()
    nats = functional.cross_entropy(logits, targets_BT[is_scored_BT], reduction="none")
    nats_BT = torch.zeros(is_scored_BT.shape, dtype=torch.float64).masked_scatter_(is_scored_BT, nats.double())
    return [float(nats) for nats in nats_BT.sum(1)]


def unigram_nats(documents: Sequence[np.ndarray], train_S: np.ndarray, *, vocab_size: int, end_id: int) -> np.ndarray:
    """Nats of each document under add-one smoothed frequencies of the training tokens, document ends left out."""
    counts_V = np.zeros(vocab_size)
    for start in range(0, len(train_S), _TOKENS_PER_COUNT):  # bincount copies its input as 64-bit integers
        counts_V += np.bincount(train_S[start : start + _TOKENS_PER_COUNT], minlength=vocab_size)
    counts_V[end_id] = 0
    counts_V += 1
    nats_V = math.log(counts_V.sum()) - np.log(counts_V)
    return np.array([nats_V[document].sum() for document in documents])


def bits_per_byte(nats_N: np.ndarray, split: TokenSplit) -> BitsPerByte:
    """Totals over the documents of a split, of which `nats_N` are the scores."""

    def over(is_member_N: np.ndarray) -> float:
        return float(nats_N[is_member_N].sum() / math.log(2) / split.num_bytes_N[is_member_N].sum())

    domains, langs = np.array(split.domains), np.array(split.langs)
    return BitsPerByte(
        total=over(np.ones(len(split), dtype=bool)),
        document_bits=dict(zip(split.doc_ids, (nats_N / math.log(2)).tolist(), strict=True)),
        by_domain={domain: over(domains == domain) for domain in sorted(set(split.domains))},
        by_lang={lang: over(langs == lang) for lang in sorted(set(split.langs))},
        num_tokens=split.num_text_tokens,
        num_bytes=int(split.num_bytes_N.sum()),
    )


def heldout_bits_per_byte(
    model: Any,
    split: TokenSplit,
    *,
    end_id: int,
    window_tokens: int,
    stride_tokens: int,
    on_progress: Callable[[int, int], None] = lambda _done, _total: None,
) -> BitsPerByte:
    """Score every byte of a split. Raises ValueError if the split is empty."""
    if len(split) == 0:
        raise ValueError("held-out split: want at least one document, got 0; raise the held-out ratio or add documents")
    documents = [split.tokens(doc_idx) for doc_idx in range(len(split))]
    nats_N = score_documents(
        model,
        documents,
        end_id=end_id,
        window_tokens=window_tokens,
        stride_tokens=stride_tokens,
        on_progress=on_progress,
    )
    return bits_per_byte(nats_N, split)
