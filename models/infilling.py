"""Blank infilling: cut spans out of a token sequence; part A is the corrupted text, part B holds the spans.

Du et al. 2022, "GLM", section 2.1 and figure 2. Part A keeps the text with every span collapsed to one mask token;
part B holds, for each span in shuffled order, `sop + span` as input and `span + eop` as target. `position_ids` count in
the corrupted text, so all of a span's part-B tokens carry the position of their mask; `block_position_ids` are 0 in
part A and 1..len+1 inside a span. The loss counts exactly the part-B positions. Part A attends all of part A and
nothing of part B; part B attends all of part A and the part B before it.

Invariants: supervised positions = masked tokens + number of spans; `reassemble` gives the text back.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch

IGNORED_TARGET = -100  # what torch's cross entropy skips
Span = tuple[int, int]  # start, length


@dataclass(frozen=True, slots=True)
class Infilling:
    """One training sequence. All lists have the same length; the first `context_length` entries are part A."""

    input_ids: list[int]
    targets: list[int]  # IGNORED_TARGET in part A
    position_ids: list[int]
    block_position_ids: list[int]
    loss_mask: list[bool]  # True = counts
    context_length: int


def assemble(
    token_ids: Sequence[int],
    spans: Sequence[Span],
    *,
    mask_id: int,
    sop_id: int,
    eop_id: int,
    order: Sequence[int] | None = None,
) -> Infilling:
    """Lay out `token_ids` with `spans` blanked; `order` indexes into `spans` and sets their order in part B."""
    tokens = [int(token) for token in token_ids]
    in_text_order = sorted(range(len(spans)), key=lambda span_idx: spans[span_idx][0])
    _check_spans(spans, in_text_order, len(tokens))
    order = list(range(len(spans))) if order is None else [int(span_idx) for span_idx in order]
    if sorted(order) != list(range(len(spans))):
        raise ValueError(f"order: want a permutation of 0..{len(spans) - 1}, got {order!r}; list every span once")

    input_ids: list[int] = []
    mask_position = [0] * len(spans)
    cursor = 0
    for span_idx in in_text_order:
        start, length = spans[span_idx]
        input_ids += tokens[cursor:start]
        mask_position[span_idx] = len(input_ids)
        input_ids.append(mask_id)
        cursor = start + length
    input_ids += tokens[cursor:]
    context_length = len(input_ids)

    targets = [IGNORED_TARGET] * context_length
    position_ids = list(range(context_length))
    block_position_ids = [0] * context_length
    for span_idx in order:
        start, length = spans[span_idx]
        span_tokens = tokens[start : start + length]
        input_ids += [sop_id, *span_tokens]
        targets += [*span_tokens, eop_id]
        position_ids += [mask_position[span_idx]] * (length + 1)
        block_position_ids += range(1, length + 2)
    loss_mask = [False] * context_length + [True] * (len(input_ids) - context_length)
    return Infilling(input_ids, targets, position_ids, block_position_ids, loss_mask, context_length)


def _check_spans(spans: Sequence[Span], in_text_order: list[int], num_tokens: int) -> None:
    end = 0
    for span_idx in in_text_order:
        start, length = spans[span_idx]
        if length < 1 or start < end or start + length > num_tokens:
            raise ValueError(
                f"spans[{span_idx}]: want (start, length) with length >= 1, inside 0..{num_tokens} and after the span "
                f"before it (ends at {end}), got {(start, length)!r}; give non-overlapping spans"
            )
        end = start + length


def assemble_document(
    token_ids: Sequence[int],
    num_source_tokens: int,
    *,
    gmask_id: int,
    sop_id: int,
) -> Infilling:
    """The document-level blank: input `source + [gMASK] + sop + target[:-1]`, every target token supervised.

    No eop is appended: the text's own end closes it (GLM, blocklm_utils.py).
    """
    tokens = [int(token) for token in token_ids]
    if not 0 <= num_source_tokens < len(tokens):
        raise ValueError(
            f"num_source_tokens: want 0..{len(tokens) - 1}, got {num_source_tokens}; leave a token to predict"
        )
    source, target = tokens[:num_source_tokens], tokens[num_source_tokens:]
    context_length = len(source) + 1
    return Infilling(
        input_ids=[*source, gmask_id, sop_id, *target[:-1]],
        targets=[IGNORED_TARGET] * context_length + target,
        position_ids=list(range(context_length)) + [num_source_tokens] * len(target),
        block_position_ids=[0] * context_length + list(range(1, len(target) + 1)),
        loss_mask=[False] * context_length + [True] * len(target),
        context_length=context_length,
    )


def reassemble(infilling: Infilling, *, eop_id: int) -> list[int]:
    """The original text: each part-B span (read from the targets) put back at the mask whose position it carries."""
    context_length = infilling.context_length
    tokens_at: dict[int, list[int]] = {}
    for idx in range(context_length, len(infilling.input_ids)):
        span_tokens = tokens_at.setdefault(infilling.position_ids[idx], [])
        if infilling.targets[idx] != eop_id:
            span_tokens.append(infilling.targets[idx])
    text: list[int] = []
    for idx in range(context_length):
        text += tokens_at.get(infilling.position_ids[idx], [infilling.input_ids[idx]])
    return text


def attend_mask(context_length: int, length: int) -> torch.Tensor:
    """bool [T, T], True = the row's position may attend to the column's: full inside part A, causal elsewhere."""
    if not 0 <= context_length <= length:
        raise ValueError(f"context_length: want 0..length ({length}), got {context_length}; count part A's tokens")
    attend_TT = torch.ones(length, length, dtype=torch.bool).tril()
    attend_TT[:, :context_length] = True
    return attend_TT


def span_length_probs(mean_span_length: float, max_span_length: int) -> np.ndarray:
    """P(length = 1..max): the Poisson law without 0, cut at the maximum and renormalised."""
    lengths = np.arange(1, max_span_length + 1)
    log_factorials = np.cumsum(np.log(lengths))
    log_weights = lengths * np.log(mean_span_length) - log_factorials
    weights = np.exp(log_weights - log_weights.max())
    probs: np.ndarray = weights / weights.sum()
    return probs


def sample_spans(
    rng: np.random.Generator,
    num_tokens: int,
    *,
    mask_ratio: float = 0.15,
    mean_span_length: float = 3.0,
    max_span_length: int = 39,
    is_maskable: Sequence[bool] | np.ndarray | None = None,
) -> list[Span]:
    """Spans in text order that cover at least `int(mask_ratio * num_tokens)` tokens, at least one token between them.

    GLM, blocklm_utils.py: lengths are drawn until their sum reaches the target (overshoot allowed), then placed
    uniformly. Positions with `is_maskable` False are never covered: the draw works on each run of maskable tokens in
    proportion to its length. Less is covered only where the gaps leave no room; empty when nothing can be masked.
    """
    runs = _maskable_runs(num_tokens, is_maskable)
    cumulative_probs = np.cumsum(span_length_probs(mean_span_length, max_span_length))[:-1]
    num_maskable = sum(length for _, length in runs)
    if num_maskable == 0:
        return []
    num_wanted = max(1, int(mask_ratio * num_tokens))
    spans: list[Span] = []
    allotted = _allot(num_wanted, [length for _, length in runs])
    for (run_start, run_length), run_wanted in zip(runs, allotted, strict=True):
        lengths: list[int] = []
        while sum(lengths) < run_wanted:
            length = int(np.searchsorted(cumulative_probs, rng.random(), side="right")) + 1
            # the gap rule needs run_length >= sum + gaps; a draw that cannot fit is cut to what is left
            room = run_length - sum(lengths) - len(lengths)
            if room < 1:
                break
            lengths.append(min(length, room))
        spans += _place(rng, lengths, run_start, run_length)
    return spans


def _maskable_runs(num_tokens: int, is_maskable: Sequence[bool] | np.ndarray | None) -> list[Span]:
    if is_maskable is None:
        return [(0, num_tokens)] if num_tokens else []
    flags = np.asarray(is_maskable, dtype=bool)
    if flags.shape != (num_tokens,):
        raise ValueError(f"is_maskable: want {num_tokens} flags, got shape {flags.shape}; give one flag a token")
    edges = np.flatnonzero(np.diff(np.concatenate(([False], flags, [False])).astype(np.int8)))
    return [(int(start), int(end - start)) for start, end in zip(edges[::2], edges[1::2], strict=True)]


def _allot(num_wanted: int, run_lengths: list[int]) -> list[int]:
    """Split `num_wanted` over the runs in proportion to their length; what rounding leaves goes to the longest."""
    total = sum(run_lengths)
    shares = [num_wanted * length // total for length in run_lengths]
    shares[int(np.argmax(run_lengths))] += num_wanted - sum(shares)
    return shares


def _place(rng: np.random.Generator, lengths: list[int], run_start: int, run_length: int) -> list[Span]:
    # GLM, blocklm_utils.py sample_spans: places in [0, m], sorted, shifted by what was placed before and one gap each
    rng.shuffle(lengths)
    num_free = run_length - sum(lengths) - len(lengths) + 1
    places = np.sort(rng.integers(0, num_free + 1, size=len(lengths)))
    spans: list[Span] = []
    num_placed = 0
    for idx, (place, length) in enumerate(zip(places, lengths, strict=True)):
        spans.append((run_start + int(place) + num_placed + idx, length))
        num_placed += length
    return spans


def sample_document_blank(
    rng: np.random.Generator, num_tokens: int, *, min_ratio: float = 0.5, max_ratio: float = 1.0
) -> int:
    """How many leading tokens stay as source of a document-level blank: the blank is uniform over the ratio range."""
    if not 0 < min_ratio <= max_ratio <= 1:
        raise ValueError(f"min_ratio, max_ratio: want 0 < min <= max <= 1, got {min_ratio}, {max_ratio}; swap or widen")
    min_blank = max(1, int(min_ratio * num_tokens))
    max_blank = max(min_blank, int(max_ratio * num_tokens))
    return num_tokens - int(rng.integers(min_blank, max_blank + 1))
