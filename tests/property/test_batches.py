"""Pretraining batches: whatever the documents, mix and row length, no token is lost and none leaks."""

import tempfile
from pathlib import Path

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.batches import ObjectiveMix
from models.infilling import IGNORED_TARGET
from models.perplexity import windows_of
from tests.support.tiny_tokens import batches_over, write_shards

LENGTHS = st.lists(st.integers(1, 70), min_size=1, max_size=12)
SHARES = st.tuples(st.integers(0, 4), st.integers(0, 4), st.integers(0, 4)).filter(any)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(lengths=LENGTHS, shares=SHARES, length=st.integers(20, 80), seed=st.integers(0, 99))
def test_an_epoch_supervises_or_shows_every_token_once(
    lengths: list[int], shares: tuple[int, int, int], length: int, seed: int
):
    with tempfile.TemporaryDirectory() as directory:
        split = write_shards(Path(directory), lengths, [3]).train
        mix = ObjectiveMix(*(share / sum(shares) for share in shares))
        source = batches_over(split, mix, length=length, seed=seed)
        sample_idx, covered, text = 0, 0, np.zeros(64, dtype=int)
        while covered < source.epoch_tokens:
            covered += sum(piece.end - piece.start for piece in source.pieces(sample_idx))
            sample_idx += 1
        batch = source.batch(0, sample_idx)
        assert int(batch.segment_BT.max()) < length
        shown = batch.input_ids_BT[batch.is_part_a_BT].tolist()
        supervised = batch.targets_BT[batch.targets_BT != IGNORED_TARGET].tolist()
        specials = {1, 2, 4, 5}
        for token in shown + supervised:
            text[token] += token not in specials
        expected = np.bincount(
            [
                int(t)
                for idx in range(sample_idx)
                for p in source.pieces(idx)
                for t in split.stream_S[split.offset_N[p.doc_idx] + p.start : split.offset_N[p.doc_idx] + p.end]
            ],
            minlength=64,
        )
        assert text.tolist() == expected.tolist()


@settings(deadline=None, derandomize=True)
@given(sizes=LENGTHS, window=st.integers(1, 20), data=st.data())
def test_windows_score_every_token_once_and_never_look_ahead(sizes: list[int], window: int, data: st.DataObject):
    stride = data.draw(st.integers(1, window))
    found = windows_of(sizes, window_tokens=window, stride_tokens=stride)
    scored = [(w.doc_idx, t) for w in found for t in range(w.score_from, w.end)]
    assert sorted(scored) == [(doc, t) for doc, size in enumerate(sizes) for t in range(size)]
    assert all(0 <= w.start <= w.score_from < w.end <= w.start + window for w in found)
