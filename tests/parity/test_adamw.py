"""Our AdamW against torch's."""

import torch
from torch import nn

from models.optim import MuonAdamW, OptimConfig

CONFIG = OptimConfig(learning_rate=0.01, embedding_learning_rate=0.01, weight_decay=0.1, betas=(0.9, 0.95))


def test_twenty_steps_equal_the_adamw_of_torch():
    generator = torch.Generator().manual_seed(0)
    start = [torch.randn(7, 5, generator=generator), torch.randn(3, generator=generator)]
    ours, theirs = ([nn.Parameter(t.clone()) for t in start] for _ in range(2))
    our_optimizer = MuonAdamW([{"params": ours, "peak_lr": 0.01, "weight_decay": 0.1}], CONFIG)
    their_optimizer = torch.optim.AdamW(theirs, lr=0.01, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.1)
    for step in range(20):
        factor = 1.0 - step / 40
        our_optimizer.set_lr_factor(factor)
        their_optimizer.param_groups[0]["lr"] = 0.01 * factor
        for our, their in zip(ours, theirs, strict=True):
            grad = torch.randn(our.shape, generator=generator)
            skips_a_step = our.ndim == 1 and step % 3 == 0
            our.grad, their.grad = (None, None) if skips_a_step else (grad.clone(), grad.clone())
        our_optimizer.step()
        their_optimizer.step()
    for our, their in zip(ours, theirs, strict=True):
        torch.testing.assert_close(our, their, atol=1e-6, rtol=1e-5)
