"""Blank infilling loses nothing, supervises exactly what was cut, and cuts as much as it should."""

from itertools import pairwise

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from models.infilling import assemble, assemble_document, attend_mask, reassemble, sample_document_blank, sample_spans

MASK, SOP, EOP = 1001, 1002, 1003
seeds = st.integers(0, 2**32 - 1)


@settings(max_examples=200, deadline=None)
@given(seed=seeds, num_tokens=st.integers(1, 300), mask_ratio=st.floats(0.05, 0.5))
def test_spans_put_back_at_their_masks_give_the_text(seed: int, num_tokens: int, mask_ratio: float) -> None:
    rng = np.random.default_rng(seed)
    text = rng.integers(0, 1000, num_tokens).tolist()
    spans = sample_spans(rng, num_tokens, mask_ratio=mask_ratio)
    infilling = assemble(text, spans, mask_id=MASK, sop_id=SOP, eop_id=EOP, order=rng.permutation(len(spans)).tolist())
    assert reassemble(infilling, eop_id=EOP) == text
    num_masked = sum(length for _, length in spans)
    assert sum(infilling.loss_mask) == num_masked + len(spans)
    assert len(infilling.input_ids) == num_tokens + 2 * len(spans)
    assert max(infilling.position_ids) < infilling.context_length == num_tokens - num_masked + len(spans)


@settings(max_examples=200, deadline=None)
@given(seed=seeds, num_tokens=st.integers(20, 600))
def test_spans_are_apart_and_cover_the_ratio_with_one_span_of_overshoot_at_most(seed: int, num_tokens: int) -> None:
    spans = sample_spans(np.random.default_rng(seed), num_tokens)
    for (start, length), (next_start, _) in pairwise(spans):
        assert start + length < next_start
    assert spans[0][0] >= 0 and sum(spans[-1]) <= num_tokens
    num_masked = sum(length for _, length in spans)
    assert int(0.15 * num_tokens) <= num_masked <= int(0.15 * num_tokens) + 39


@settings(max_examples=100, deadline=None)
@given(seed=seeds, num_tokens=st.integers(1, 200))
def test_a_document_blank_put_back_gives_the_text(seed: int, num_tokens: int) -> None:
    rng = np.random.default_rng(seed)
    text = rng.integers(0, 1000, num_tokens).tolist()
    infilling = assemble_document(text, sample_document_blank(rng, num_tokens), gmask_id=MASK, sop_id=SOP)
    assert reassemble(infilling, eop_id=EOP) == text


@settings(max_examples=100, deadline=None)
@given(length=st.integers(0, 40), data=st.data())
def test_a_row_of_the_attend_mask_sees_part_a_and_its_own_past(length: int, data: st.DataObject) -> None:
    context_length = data.draw(st.integers(0, length))
    rows = attend_mask(context_length, length).sum(1).tolist()
    assert rows == [max(context_length, row + 1) for row in range(length)]
