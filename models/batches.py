"""Pretraining batches: a pure function of (shards, mix, seed, global sample index).

Nothing is buffered and no generator is carried along, so any number of workers gives the same batches and a run is
resumed by one integer. The plan:

- An epoch is a permutation of the documents; its stream is each document's text and end token in that order.
- A row (one training sequence of `sequence_tokens` positions) covers an interval of the stream, cut into pieces at
  document boundaries. Every stream token is in exactly one row of an epoch; none is dropped.
- A row has one objective: plain language modelling, [MASK] spans or a [gMASK] document. Every block of 64 rows has each
  objective in its exact proportion, in an order drawn from the seed, so row starts follow from the index alone.
- Each piece is a segment of its own: positions start at 0 and no attention crosses a segment, so a packed document has
  the loss it would have alone. A piece too short for a blank, or for which the row has no room, is modelled plainly.

Language modelling: the input is shifted by one, so the first token of a document is predicted from the document end
before it. Infilling (`models.infilling`): part A in both directions, spans shuffled; the end token is never masked.

Shapes: B batch, T tokens.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, fields
from functools import lru_cache
from typing import NamedTuple

import numpy as np
import torch

from models.infilling import IGNORED_TARGET, assemble, assemble_document, sample_document_blank, sample_spans
from models.token_shards import TokenSplit

OBJECTIVES = ("language", "span", "document")
PADDING_SEGMENT = -1
NO_OBJECTIVE = -1
_LANGUAGE, _SPAN, _DOCUMENT = range(3)
_ROWS_PER_BLOCK = 64
_DOCUMENT_ROW_RESERVE = 4  # one more input than stream tokens for each [gMASK] piece of a row
_MIN_BLANK_PIECE_TOKENS = 8
_ROW_STREAM, _EPOCH_STREAM, _BLOCK_STREAM = range(3)  # keeps the generators of different purposes apart


@dataclass(frozen=True)
class ObjectiveMix:
    """Shares of the three objectives (by sequence) and the laws of the blanks."""

    language_ratio: float
    span_ratio: float
    document_ratio: float
    mask_ratio: float = 0.15
    mean_span_length: float = 3.0
    min_document_blank_ratio: float = 0.5

    def rows_per_block(self) -> tuple[int, int, int]:
        """Rows of each objective in a block of 64, by largest remainder."""
        shares = np.array([self.language_ratio, self.span_ratio, self.document_ratio], dtype=np.float64)
        if shares.min() < 0 or abs(shares.sum() - 1.0) > 1e-6:
            raise ValueError(f"objective mix: want three ratios >= 0 with sum 1, got {shares.tolist()}; change one")
        exact = shares * _ROWS_PER_BLOCK
        counts = np.floor(exact).astype(int)
        for idx in np.argsort(counts - exact, kind="stable")[: _ROWS_PER_BLOCK - counts.sum()]:
            counts[idx] += 1
        return int(counts[0]), int(counts[1]), int(counts[2])


@dataclass(frozen=True)
class SpecialIds:
    """Token ids the objectives need."""

    mask_id: int
    gmask_id: int
    sop_id: int
    eop_id: int
    end_id: int


@dataclass
class Batch:
    """Rows of one micro-batch. `segment_BT` numbers the segments of a row, -1 = padding."""

    input_ids_BT: torch.Tensor
    targets_BT: torch.Tensor  # IGNORED_TARGET where nothing is supervised
    position_ids_BT: torch.Tensor
    block_position_ids_BT: torch.Tensor
    segment_BT: torch.Tensor
    is_part_a_BT: torch.Tensor
    objective_BT: torch.Tensor  # index into OBJECTIVES

    @property
    def is_real_BT(self) -> torch.Tensor:  # noqa: N802  shape letters
        """True = no padding."""
        return self.segment_BT != PADDING_SEGMENT

    @property
    def loss_mask_BT(self) -> torch.Tensor:  # noqa: N802
        """True = counts in the loss."""
        return self.targets_BT != IGNORED_TARGET

    @property
    def num_tokens(self) -> int:
        """Real tokens."""
        return int(self.is_real_BT.sum())

    def attend_mask_BTT(self) -> torch.Tensor:  # noqa: N802
        """True = may attend: within the segment, what is not later or stands in part A."""
        length = self.segment_BT.shape[1]
        is_not_later_TT = torch.ones(length, length, dtype=torch.bool).tril()
        is_same_BTT = self.segment_BT[:, :, None] == self.segment_BT[:, None, :]
        return is_same_BTT & (is_not_later_TT | self.is_part_a_BT[:, None, :])


_COLUMNS: tuple[str, ...] = tuple(f.name for f in fields(Batch))


class Piece(NamedTuple):
    """Part of one document: stream tokens [start, end) counted from its first token; its end token is the last."""

    doc_idx: int
    start: int
    end: int


class _Epoch(NamedTuple):
    doc_order_N: np.ndarray
    ends_N: np.ndarray  # where each document of the order ends in the epoch's stream


@dataclass
class _Row:
    length: int
    num_segments: int = 0
    columns: dict[str, list[int]] = field(default_factory=lambda: {name: [] for name in _COLUMNS})

    @property
    def num_free(self) -> int:
        return self.length - len(self.columns["segment_BT"])

    def add(self, objective: int, **columns: list[int]) -> None:
        num_added = len(columns["input_ids_BT"])
        for name, values in columns.items():
            self.columns[name] += values
        self.columns["segment_BT"] += [self.num_segments] * num_added
        self.columns["objective_BT"] += [objective] * num_added
        self.num_segments += 1


_PADDING = {"targets_BT": IGNORED_TARGET, "segment_BT": PADDING_SEGMENT, "objective_BT": NO_OBJECTIVE}


class PretrainBatches:
    """Rows and batches over one split."""

    def __init__(
        self, split: TokenSplit, special: SpecialIds, mix: ObjectiveMix, *, sequence_tokens: int, seed: int
    ) -> None:
        if len(split) == 0:
            raise ValueError("dataset yields 0 steps: want at least one training document, got 0; give more text")
        self.split = split
        self.special = special
        self.mix = mix
        self.sequence_tokens = sequence_tokens
        self.seed = seed
        self.epoch_tokens = int(split.num_tokens_N.sum()) + len(split)
        self._row_tokens = self._stream_tokens_per_row()
        counts = mix.rows_per_block()
        self._block_objectives = np.repeat(np.arange(len(OBJECTIVES)), counts)
        self._block_tokens = int(sum(n * t for n, t in zip(counts, self._row_tokens, strict=True)))
        self._epoch: Callable[[int], _Epoch] = lru_cache(maxsize=2)(self._make_epoch)

    def _stream_tokens_per_row(self) -> tuple[int, int, int]:
        """How many stream tokens a row of each objective covers, so that its layout fits in nearly every case."""
        length = self.sequence_tokens
        # every span adds its mask and its sop/eop slot; a tenth more spans than the mean, because the draw overshoots
        overhead = 1.0 + 2.2 * self.mix.mask_ratio / self.mix.mean_span_length
        span_row = int((length - _DOCUMENT_ROW_RESERVE) / overhead)
        if span_row <= _MIN_BLANK_PIECE_TOKENS:
            raise ValueError(f"sequence_tokens: want room for a blank, got {length}; use 16 or more")
        return length, span_row, length - _DOCUMENT_ROW_RESERVE

    def objective(self, sample_idx: int) -> int:
        """Index into OBJECTIVES."""
        return int(self._block(sample_idx)[sample_idx % _ROWS_PER_BLOCK])

    def _block(self, sample_idx: int) -> np.ndarray:
        rng = np.random.default_rng([self.seed, _BLOCK_STREAM, sample_idx // _ROWS_PER_BLOCK])
        shuffled: np.ndarray = rng.permutation(self._block_objectives)
        return shuffled

    def interval(self, sample_idx: int) -> tuple[int, int]:
        """The row's part of the endless stream of epochs, [start, end)."""
        block_idx, row_idx = divmod(sample_idx, _ROWS_PER_BLOCK)
        sizes = np.array(self._row_tokens)[self._block(sample_idx)]
        start = block_idx * self._block_tokens + int(sizes[:row_idx].sum())
        return start, start + int(sizes[row_idx])

    def pieces(self, sample_idx: int) -> list[Piece]:
        """The row's interval, cut at document boundaries."""
        position, stop = self.interval(sample_idx)
        found: list[Piece] = []
        while position < stop:
            epoch_idx, place = divmod(position, self.epoch_tokens)
            epoch = self._epoch(epoch_idx)
            order_idx = int(np.searchsorted(epoch.ends_N, place, side="right"))
            doc_idx = int(epoch.doc_order_N[order_idx])
            doc_tokens = int(self.split.num_tokens_N[doc_idx]) + 1
            start = doc_tokens - int(epoch.ends_N[order_idx] - place)
            end = min(doc_tokens, start + stop - position)
            found.append(Piece(doc_idx, start, end))
            position += end - start
        return found

    def _make_epoch(self, epoch_idx: int) -> _Epoch:
        order = np.random.default_rng([self.seed, _EPOCH_STREAM, epoch_idx]).permutation(len(self.split))
        return _Epoch(order, np.cumsum(self.split.num_tokens_N[order] + 1))

    def batch(self, first_sample_idx: int, num_rows: int) -> Batch:
        """Rows `first_sample_idx` to `first_sample_idx + num_rows - 1`."""
        rows = [self._row(first_sample_idx + idx).columns for idx in range(num_rows)]
        arrays = {}
        for name in _COLUMNS:
            array = np.full((num_rows, self.sequence_tokens), _PADDING.get(name, 0), dtype=np.int64)
            for row_idx, columns in enumerate(rows):
                array[row_idx, : len(columns[name])] = columns[name]
            arrays[name] = torch.from_numpy(array)
        arrays["is_part_a_BT"] = arrays["is_part_a_BT"].bool()
        return Batch(**arrays)

    def _row(self, sample_idx: int) -> _Row:
        rng = np.random.default_rng([self.seed, _ROW_STREAM, sample_idx])
        objective = self.objective(sample_idx)
        row = _Row(self.sequence_tokens)
        pieces = self.pieces(sample_idx)
        num_left = sum(piece.end - piece.start for piece in pieces)
        for piece in pieces:
            num_left -= piece.end - piece.start
            self._add_piece(row, objective, piece, rng, num_free=row.num_free - num_left)
        return row

    def _add_piece(self, row: _Row, objective: int, piece: Piece, rng: np.random.Generator, *, num_free: int) -> None:
        """Lay out one piece in at most `num_free` positions; what is left of the row belongs to later pieces."""
        offset = int(self.split.offset_N[piece.doc_idx])
        stream_S = self.split.stream_S
        tokens = stream_S[offset + piece.start : offset + piece.end].tolist()
        num_spare = num_free - len(tokens)
        if objective == _LANGUAGE or len(tokens) < _MIN_BLANK_PIECE_TOKENS or num_spare < 2:
            row.add(
                _LANGUAGE,
                input_ids_BT=stream_S[offset + piece.start - 1 : offset + piece.end - 1].tolist(),
                targets_BT=tokens,
                position_ids_BT=list(range(len(tokens))),
                block_position_ids_BT=[0] * len(tokens),
                is_part_a_BT=[0] * len(tokens),
            )
            return
        special = self.special
        if objective == _DOCUMENT:
            num_source = sample_document_blank(rng, len(tokens), min_ratio=self.mix.min_document_blank_ratio)
            laid = assemble_document(tokens, num_source, gmask_id=special.gmask_id, sop_id=special.sop_id)
        else:
            spans = sample_spans(
                rng,
                len(tokens),
                mask_ratio=self.mix.mask_ratio,
                mean_span_length=self.mix.mean_span_length,
                is_maskable=np.array(tokens) != special.end_id,
            )
            spans = [spans[idx] for idx in sorted(rng.permutation(len(spans))[: num_spare // 2])]
            order = rng.permutation(len(spans)).tolist()
            laid = assemble(
                tokens, spans, mask_id=special.mask_id, sop_id=special.sop_id, eop_id=special.eop_id, order=order
            )
        num_part_b = len(laid.input_ids) - laid.context_length
        row.add(
            objective,
            input_ids_BT=laid.input_ids,
            targets_BT=laid.targets,
            position_ids_BT=laid.position_ids,
            block_position_ids_BT=laid.block_position_ids,
            is_part_a_BT=[1] * laid.context_length + [0] * num_part_b,
        )
