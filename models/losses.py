"""Cross entropy where it counts: at supervised positions only.

The trainer takes hidden states from the backbone, keeps the supervised rows and multiplies only those by the head, so
no logits are computed where nothing is supervised. The product and the cross entropy run together in blocks of rows
that stay in the cache: the [N, V] logits never exist as a whole.

Shapes: B batch, T tokens, D model dim, V vocabulary, N supervised positions.
"""

from typing import Any

import torch
from torch import nn
from torch.nn import functional

IGNORED_LABEL = -100
_ROWS_PER_BLOCK = 256


def supervised_loss_sum(
    hidden_BTD: torch.Tensor, targets_BT: torch.Tensor, loss_mask_BT: torch.Tensor, head: nn.Linear
) -> torch.Tensor:
    """Sum of the cross entropy where `loss_mask_BT` is True; divide by the count over the whole global batch."""
    return supervised_losses(hidden_BTD, targets_BT, loss_mask_BT, head)[0]


def supervised_losses(
    hidden_BTD: torch.Tensor, targets_BT: torch.Tensor, loss_mask_BT: torch.Tensor, head: nn.Linear
) -> tuple[torch.Tensor, torch.Tensor]:
    """(the sum, its terms [N]); the terms carry no gradient, they are for metrics."""
    loss: torch.Tensor
    loss_N: torch.Tensor
    loss, loss_N = _HeadCrossEntropy.apply(  # type: ignore[no-untyped-call]
        hidden_BTD[loss_mask_BT], head.weight, targets_BT[loss_mask_BT]
    )
    return loss, loss_N


class _HeadCrossEntropy(torch.autograd.Function):
    """sum of cross_entropy(hidden @ weight.T); gradients are made in the forward pass while the logits are at hand."""

    @staticmethod
    def forward(
        ctx: Any, hidden_ND: torch.Tensor, weight_VD: torch.Tensor, targets_N: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        needs_grad = any(ctx.needs_input_grad)
        grad_hidden_ND = torch.empty_like(hidden_ND) if needs_grad else None
        grad_weight_VD = torch.zeros_like(weight_VD) if needs_grad else None
        loss_N = torch.empty(hidden_ND.shape[0], dtype=torch.float32, device=hidden_ND.device)
        for start in range(0, hidden_ND.shape[0], _ROWS_PER_BLOCK):
            rows_nD = hidden_ND[start : start + _ROWS_PER_BLOCK]
            targets_n1 = targets_N[start : start + _ROWS_PER_BLOCK, None]
            logits_nV = (rows_nD @ weight_VD.t()).float()
            log_total_n1 = logits_nV.logsumexp(-1, keepdim=True)
            loss_N[start : start + _ROWS_PER_BLOCK] = (log_total_n1 - logits_nV.gather(1, targets_n1)).squeeze(1)
            if grad_hidden_ND is None or grad_weight_VD is None:
                continue
            # d cross_entropy / d logits = softmax - one_hot
            grad_nV = logits_nV.sub_(log_total_n1).exp_()
            grad_nV.scatter_add_(1, targets_n1, torch.full_like(log_total_n1, -1.0))
            grad_nV = grad_nV.to(weight_VD.dtype)
            torch.mm(grad_nV, weight_VD, out=grad_hidden_ND[start : start + _ROWS_PER_BLOCK])
            grad_weight_VD.addmm_(grad_nV.t(), rows_nD)
        ctx.save_for_backward(grad_hidden_ND, grad_weight_VD)
        ctx.mark_non_differentiable(loss_N)
        return loss_N.sum(), loss_N

    @staticmethod
    def backward(ctx: Any, grad_loss: torch.Tensor, _grad_terms: None) -> tuple[torch.Tensor, torch.Tensor, None]:
        grad_hidden_ND, grad_weight_VD = ctx.saved_tensors
        return grad_hidden_ND * grad_loss, grad_weight_VD * grad_loss, None


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
