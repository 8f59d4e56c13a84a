"""Cross entropy where it counts: at supervised positions only.

The trainer takes hidden states from the backbone, keeps the supervised rows and multiplies only those by the head, so
no logits are computed where nothing is supervised.

Shapes: B batch, T tokens, D model dim, V vocabulary, N supervised positions.
"""

import torch
from torch import nn
from torch.nn import functional

IGNORED_LABEL = -100


def supervised_loss_sum(
    hidden_BTD: torch.Tensor, targets_BT: torch.Tensor, loss_mask_BT: torch.Tensor, head: nn.Linear
) -> torch.Tensor:
    """Sum of the cross entropy where `loss_mask_BT` is True; divide by the count over the whole global batch."""
    hidden_ND = hidden_BTD[loss_mask_BT]
    return functional.cross_entropy(head(hidden_ND).float(), targets_BT[loss_mask_BT], reduction="sum")


def next_token_loss(
    logits_BTV: torch.Tensor, labels_BT: torch.Tensor, *, num_items_in_batch: torch.Tensor | int | None = None
) -> torch.Tensor:
    """Hugging Face's convention: position t predicts label t+1; mean over labels, or sum / `num_items_in_batch`."""
    logits = logits_BTV[:, :-1].flatten(0, 1).float()
    labels = labels_BT[:, 1:].flatten()
    if num_items_in_batch is None:
        return functional.cross_entropy(logits, labels, ignore_index=IGNORED_LABEL)
    return functional.cross_entropy(logits, labels, ignore_index=IGNORED_LABEL, reduction="sum") / num_items_in_batch


def token_logprobs(logits_BTV: torch.Tensor, token_ids_BT: torch.Tensor) -> torch.Tensor:
    """log p(token_t) under logits_t, both [B, T]: the caller aligns them."""
    chosen_BT = logits_BTV.gather(-1, token_ids_BT.unsqueeze(-1)).squeeze(-1)
    return chosen_BT - logits_BTV.logsumexp(-1)
