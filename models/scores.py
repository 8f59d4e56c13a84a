"""Scores of a reward model; one conversation's score does not depend on the others (up to rounding)."""

from collections.abc import Sequence

import torch

from models.glm import GlmForSequenceClassification


@torch.inference_mode()
def score(
    model: GlmForSequenceClassification, conversations: Sequence[Sequence[int]], *, batch_size: int
) -> list[float]:
    """Scores of token-id conversations, in the order given; similar lengths share a batch."""
    order = sorted(range(len(conversations)), key=lambda i: (len(conversations[i]), i))
    scores = [0.0] * len(conversations)
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        length = max(len(conversations[i]) for i in batch)
        ids = [[*conversations[i], *[0] * (length - len(conversations[i]))] for i in batch]
        is_real = [[t < len(conversations[i]) for t in range(length)] for i in batch]
        output = model(
            input_ids=torch.tensor(ids, device=model.device), attention_mask=torch.tensor(is_real, device=model.device)
        )
        for i, value in zip(batch, output.logits[:, 0].tolist(), strict=True):
            scores[i] = value
    return scores
