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
    phases: Sequence[int], lengths: Sequence[int], *, batch_size: int, epochs: int, seed: int
) -> list[list[int]]:
    """Row indices of every step: all epochs of the lowest phase first; a batch never mixes phases."""
    rng = random.Random(seed)
    batches: list[list[int]] = []
    for phase in sorted(set(phases)):
        members = [row for row, of_phase in enumerate(phases) if of_phase == phase]
        for _ in range(epochs):
            rng.shuffle(members)
            batches += _batches_of_similar_length(members, lengths, batch_size, rng)
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
