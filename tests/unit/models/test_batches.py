from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
import torch

from models.batches import OBJECTIVES, Batch, ObjectiveMix, Piece
from models.infilling import IGNORED_TARGET
from models.token_shards import TokenSplit
from tests.support.tiny_tokens import MIXED, SPECIAL, batches_over, tiny_model, write_shards

LANGUAGE_ONLY = ObjectiveMix(language_ratio=1, span_ratio=0, document_ratio=0)


@pytest.fixture
def split(tmp_path: Path) -> TokenSplit:
    return write_shards(tmp_path, [40, 3, 17, 90, 1, 25, 8, 60], [4]).train


def columns(batch: Batch) -> dict[str, list[list[int]]]:
    return {name: value.tolist() for name, value in vars(batch).items()}


def test_a_batch_is_a_function_of_the_index_alone(split: TokenSplit):
    forward, backward = batches_over(split), batches_over(split)
    expected = [columns(forward.batch(4 * idx, 4)) for idx in range(20)]
    assert [columns(backward.batch(4 * idx, 4)) for idx in reversed(range(20))] == expected[::-1]


def test_any_number_of_workers_gives_the_same_batches(split: TokenSplit):
    expected = [columns(batches_over(split).batch(idx, 1)) for idx in range(40)]
    shared = batches_over(split)
    for num_workers in (2, 5):
        with ThreadPoolExecutor(num_workers) as pool:
            assert [columns(batch) for batch in pool.map(lambda idx: shared.batch(idx, 1), range(40))] == expected


def test_one_batch_of_eight_rows_is_eight_batches_of_one(split: TokenSplit):
    source = batches_over(split)
    whole = source.batch(8, 8)
    for name, value in vars(whole).items():
        assert torch.equal(value, torch.cat([getattr(source.batch(8 + idx, 1), name) for idx in range(8)])), name


def test_another_seed_gives_other_batches(split: TokenSplit):
    assert columns(batches_over(split, seed=1).batch(0, 4)) != columns(batches_over(split, seed=2).batch(0, 4))


def test_every_block_of_64_rows_has_the_exact_mix(split: TokenSplit):
    source = batches_over(split)
    for block in range(3):
        found = np.bincount([source.objective(64 * block + idx) for idx in range(64)], minlength=3)
        assert found.tolist() == [32, 16, 16]


def test_ratios_that_do_not_divide_64_are_rounded_and_none_is_lost():
    assert sum(ObjectiveMix(1 / 3, 1 / 3, 1 / 3).rows_per_block()) == 64


def test_an_epoch_holds_every_stream_token_exactly_once(split: TokenSplit):
    source = batches_over(split)
    seen = np.zeros(len(split.stream_S), dtype=int)
    sample_idx, covered = 0, 0
    while covered < source.epoch_tokens:
        for piece in source.pieces(sample_idx):
            take = min(piece.end - piece.start, source.epoch_tokens - covered)
            offset = int(split.offset_N[piece.doc_idx])
            seen[offset + piece.start : offset + piece.start + take] += 1
            covered += take
        sample_idx += 1
    assert seen.tolist() == [0] + [1] * source.epoch_tokens


def test_plain_rows_are_full_and_predict_the_next_token(split: TokenSplit):
    batch = batches_over(split, LANGUAGE_ONLY).batch(0, 16)
    assert batch.num_tokens == 16 * 32 and bool(batch.loss_mask_BT.all())
    is_same_segment = batch.segment_BT[:, 1:] == batch.segment_BT[:, :-1]
    assert torch.equal(batch.input_ids_BT[:, 1:][is_same_segment], batch.targets_BT[:, :-1][is_same_segment])


def text_of(row: dict[str, list[int]], segment: int, objective: str) -> list[int]:
    """The stream tokens a segment was made of."""
    at = [idx for idx, value in enumerate(row["segment_BT"]) if value == segment]
    part_a = [row["input_ids_BT"][idx] for idx in at if row["is_part_a_BT"][idx]]
    targets = [row["targets_BT"][idx] for idx in at if not row["is_part_a_BT"][idx]]
    if objective == "language":
        return targets
    if objective == "document":
        assert part_a[-1] == SPECIAL.gmask_id
        return part_a[:-1] + targets
    spans: dict[int, list[int]] = {}
    for idx in at:
        if not row["is_part_a_BT"][idx]:
            spans.setdefault(row["position_ids_BT"][idx], []).append(row["targets_BT"][idx])
    text: list[int] = []
    for position, token in enumerate(part_a):
        text += spans[position][:-1] if token == SPECIAL.mask_id else [token]
    return text


def test_every_segment_gives_its_piece_of_the_document_back(split: TokenSplit):
    source = batches_over(split)
    found = set()
    for sample_idx in range(128):
        row = {name: value[0] for name, value in columns(source.batch(sample_idx, 1)).items()}
        for segment, piece in enumerate(source.pieces(sample_idx)):
            objective = OBJECTIVES[row["objective_BT"][row["segment_BT"].index(segment)]]
            offset = int(split.offset_N[piece.doc_idx])
            assert (
                text_of(row, segment, objective) == split.stream_S[offset + piece.start : offset + piece.end].tolist()
            )
            found.add(objective)
    assert found == set(OBJECTIVES)


def test_nothing_is_supervised_in_part_a_or_padding_and_the_end_is_never_masked(split: TokenSplit):
    batch = batches_over(split).batch(0, 64)
    is_part_b = batch.is_real_BT & ~batch.is_part_a_BT
    assert torch.equal(batch.loss_mask_BT, is_part_b)
    is_span = is_part_b & (batch.objective_BT == OBJECTIVES.index("span"))
    assert not bool((batch.targets_BT[is_span] == SPECIAL.end_id).any())


def test_little_of_a_batch_is_padding(split: TokenSplit):
    batch = batches_over(split, length=128).batch(0, 64)
    assert batch.num_tokens > 0.93 * batch.input_ids_BT.numel()


def test_the_mask_is_the_one_of_infilling_within_a_segment_and_closed_between_segments(split: TokenSplit):
    batch = batches_over(split).batch(0, 16)
    attend = batch.attend_mask_BTT()
    for row in range(16):
        for query in range(32):
            for key in range(32):
                is_same = batch.segment_BT[row, query] == batch.segment_BT[row, key]
                assert attend[row, query, key] == (is_same and (key <= query or bool(batch.is_part_a_BT[row, key])))


def test_packed_documents_have_the_logits_they_have_alone(split: TokenSplit):
    model = tiny_model().eval()
    source = batches_over(split)
    batch = source.batch(0, 8)
    with torch.no_grad():
        packed = model.model(
            input_ids=batch.input_ids_BT, attention_mask=batch.is_real_BT, position_ids=batch.position_ids_BT,
            block_position_ids=batch.block_position_ids_BT, attend_mask=batch.attend_mask_BTT(),
        ).hidden_BTD  # fmt: skip
        for row in range(8):
            for segment in range(int(batch.segment_BT[row].max()) + 1):
                at = batch.segment_BT[row] == segment
                alone = model.model(
                    input_ids=batch.input_ids_BT[row, at][None],
                    position_ids=batch.position_ids_BT[row, at][None],
                    block_position_ids=batch.block_position_ids_BT[row, at][None],
                    context_length=batch.is_part_a_BT[row, at].sum()[None],
                ).hidden_BTD
                torch.testing.assert_close(packed[row, at], alone[0], atol=1e-5, rtol=1e-5)


def test_a_row_that_ends_an_epoch_goes_on_with_the_next(split: TokenSplit):
    source = batches_over(split, LANGUAGE_ONLY)
    sample_idx = source.epoch_tokens // 32
    assert sum(piece.end - piece.start for piece in source.pieces(sample_idx)) == 32
    assert isinstance(source.pieces(sample_idx)[0], Piece)


def test_a_dataset_without_documents_is_refused(tmp_path: Path):
    with pytest.raises(ValueError, match="dataset yields 0 steps: want at least one training document, got 0"):
        batches_over(write_shards(tmp_path, [], [4]).train)


def test_ratios_that_do_not_sum_to_one_are_refused(split: TokenSplit):
    with pytest.raises(ValueError, match="objective mix: want three ratios >= 0 with sum 1"):
        batches_over(split, ObjectiveMix(0.5, 0.5, 0.5))


def test_rows_without_room_for_a_blank_are_refused(split: TokenSplit):
    with pytest.raises(ValueError, match="sequence_tokens: want room for a blank, got 8"):
        batches_over(split, MIXED, length=8)


def test_padding_is_neither_input_nor_target(split: TokenSplit):
    batch = batches_over(split).batch(0, 64)
    assert bool((batch.targets_BT[~batch.is_real_BT] == IGNORED_TARGET).all())
