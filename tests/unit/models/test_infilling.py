import numpy as np
import pytest
import torch

from models.infilling import (
    assemble,
    assemble_document,
    attend_mask,
    reassemble,
    sample_document_blank,
    sample_spans,
    span_length_probs,
)

CLS, X1, X2, X3, X4, X5, X6, MASK, SOP, EOP = 100, 1, 2, 3, 4, 5, 6, 50, 51, 52
IDS = {"mask_id": MASK, "sop_id": SOP, "eop_id": EOP}
TEXT = [CLS, X1, X2, X3, X4, X5, X6]


def test_the_layout_of_figure_2_is_literal() -> None:
    infilling = assemble(TEXT, [(3, 1), (5, 2)], order=[1, 0], **IDS)
    assert infilling.input_ids == [CLS, X1, X2, MASK, X4, MASK, SOP, X5, X6, SOP, X3]
    assert infilling.targets[6:] == [X5, X6, EOP, X3, EOP]
    assert infilling.position_ids == [0, 1, 2, 3, 4, 5, 5, 5, 5, 3, 3]
    assert infilling.block_position_ids == [0, 0, 0, 0, 0, 0, 1, 2, 3, 1, 2]
    assert infilling.loss_mask == [False] * 6 + [True] * 5
    assert infilling.context_length == 6


def test_spans_given_in_part_b_order_need_no_order() -> None:
    assert assemble(TEXT, [(5, 2), (3, 1)], **IDS) == assemble(TEXT, [(3, 1), (5, 2)], order=[1, 0], **IDS)


def test_every_span_collapses_to_one_mask_however_long_it_is() -> None:
    # "AI changes the world" with the first and the last word (4 and 4 characters) blanked
    text = [ord(character) for character in "\u4eba\u5de5\u667a\u80fd\u80fd\u591f\u6539\u53d8\u4e16\u754c"]
    infilling = assemble(text, [(0, 4), (6, 4)], **IDS)
    assert infilling.input_ids[:4] == [MASK, text[4], text[5], MASK]
    assert infilling.input_ids[4:] == [SOP, *text[:4], SOP, *text[6:]]
    assert infilling.targets[4:] == [*text[:4], EOP, *text[6:], EOP]
    assert infilling.position_ids == [0, 1, 2, 3, *[0] * 5, *[3] * 5]
    assert infilling.block_position_ids == [0] * 4 + [1, 2, 3, 4, 5] * 2


def test_the_attend_mask_of_figure_2_is_literal() -> None:
    rows = attend_mask(6, 11).int().tolist()
    assert ["".join(map(str, row)) for row in rows] == ["11111100000"] * 6 + [
        "11111110000",
        "11111111000",
        "11111111100",
        "11111111110",
        "11111111111",
    ]
    assert attend_mask(0, 3).equal(torch.ones(3, 3, dtype=torch.bool).tril())


@pytest.mark.parametrize("spans", [[(0, 0)], [(-1, 2)], [(5, 3)], [(1, 3), (3, 1)]])
def test_spans_that_overlap_or_leave_the_text_are_refused(spans: list[tuple[int, int]]) -> None:
    with pytest.raises(ValueError, match=r"spans\[\d\]: want \(start, length\)"):
        assemble(TEXT, spans, **IDS)


def test_an_order_that_is_no_permutation_is_refused() -> None:
    with pytest.raises(ValueError, match=r"order: want a permutation of 0\.\.1"):
        assemble(TEXT, [(3, 1), (5, 2)], order=[0, 0], **IDS)


def test_a_document_blank_supervises_every_target_token_and_nothing_else() -> None:
    infilling = assemble_document(TEXT, 4, gmask_id=60, sop_id=SOP)
    assert infilling.input_ids == [CLS, X1, X2, X3, 60, SOP, X4, X5]
    assert infilling.targets[5:] == [X4, X5, X6]
    assert infilling.position_ids == [0, 1, 2, 3, 4, 4, 4, 4]
    assert infilling.block_position_ids == [0, 0, 0, 0, 0, 1, 2, 3]
    assert sum(infilling.loss_mask) == 3
    assert reassemble(infilling, eop_id=EOP) == TEXT


def test_a_document_blank_without_a_token_to_predict_is_refused() -> None:
    with pytest.raises(ValueError, match=r"num_source_tokens: want 0\.\.6, got 7"):
        assemble_document(TEXT, 7, gmask_id=60, sop_id=SOP)


def test_span_lengths_follow_the_truncated_poisson_law() -> None:
    probs = span_length_probs(3.0, 39)
    assert probs[:5] == pytest.approx([0.1572, 0.2358, 0.2358, 0.1768, 0.1061], abs=1e-4)
    assert float(np.dot(probs, np.arange(1, 40))) == pytest.approx(3.157, abs=1e-3)
    rng = np.random.default_rng(0)
    lengths = [length for _ in range(300) for _, length in sample_spans(rng, 512)]
    assert np.mean(lengths) == pytest.approx(3.157, abs=0.1)


def test_tokens_that_are_not_maskable_are_never_covered() -> None:
    rng = np.random.default_rng(0)
    is_maskable = np.ones(200, dtype=bool)
    is_maskable[::7] = False
    for _ in range(20):
        covered = [
            i for start, length in sample_spans(rng, 200, is_maskable=is_maskable) for i in range(start, start + length)
        ]
        assert covered and is_maskable[covered].all()
    assert sample_spans(rng, 5, is_maskable=[False] * 5) == []
    with pytest.raises(ValueError, match="is_maskable: want 5 flags"):
        sample_spans(rng, 5, is_maskable=[True])


def test_document_blanks_cover_the_ratio_range() -> None:
    rng = np.random.default_rng(0)
    blanks = [100 - sample_document_blank(rng, 100) for _ in range(2000)]
    assert (min(blanks), max(blanks)) == (50, 100)
    assert np.mean(blanks) == pytest.approx(75, abs=1)
    with pytest.raises(ValueError, match="min_ratio, max_ratio"):
        sample_document_blank(rng, 10, min_ratio=0.0)
