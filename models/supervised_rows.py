"""Supervised conversations as rows, and the fixed order in which fine-tuning walks through rows."""

import random
from collections.abc import Sequence

from models.losses import IGNORED_LABEL
from models.tokenizer import ChatTemplate, Message

_BATCHES_PER_WINDOW = 16  # rows are sorted by length inside a window of so many batches: little padding, much mixing


def labelled_row(template: ChatTemplate, messages: Sequence[Message]) -> dict[str, list[int]]:
    """`input_ids` and `labels` of a conversation, not shifted: label t is token t or -100."""
    token_ids, loss_mask = template.encode_for_training(messages)
    labels = [token if counts else IGNORED_LABEL for token, counts in zip(token_ids, loss_mask, strict=True)]
    return {"input_ids": token_ids, "labels": labels}


def curriculum_batches(
    phases: Sequence[int],
    lengths: Sequence[int],
    *,
    batch_size: int,
    epochs: Sequence[int],
    seed: int,
    replay_ratio: float = 0.0,
) -> list[list[int]]:
    """Row indices of every step, the lowest phase first.

    `epochs[i]` passes over the i-th phase (the last value holds for later ones); each pass of a later phase repeats
    `replay_ratio` of all earlier rows, drawn anew, because a small model forgets what it no longer sees.
    """
    rng = random.Random(seed)
    batches: list[list[int]] = []
    earlier: list[int] = []
    for place, phase in enumerate(sorted(set(phases))):
        members = [row for row, of_phase in enumerate(phases) if of_phase == phase]
        for _ in range(epochs[min(place, len(epochs) - 1)]):
            rows = members + rng.sample(earlier, round(replay_ratio * len(earlier)))
            rng.shuffle(rows)
            batches += _batches_of_similar_length(rows, lengths, batch_size, rng)
        earlier += members
    return batches


def _batches_of_similar_length(
    rows: Sequence[int], lengths: Sequence[int], batch_size: int, rng: random.Random
) -> list[list[int]]:
    window = _BATCHES_PER_WINDOW * batch_size
    batches: list[list[int]] = []
    for start in range(0, len(rows), window):
        by_length = sorted(rows[start : start + window], key=lambda row: (lengths[row], row))
        batches += [by_length[i : i + batch_size] for i in range(0, len(by_length), batch_size)]
    rng.shuffle(batches)
    return batches
