"""Schedules over absolute tokens, never steps: a changed batch size or a skipped step does not shift them.

GLM-130B lost a run to a warm-up that was counted in steps (GLM-130B main log); GLM-4.5 uses a cosine, not WSD.
"""

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class CosineSchedule:
    """Linear warm-up from 0, then half a cosine down to `min_ratio` at `total_tokens`, then flat."""

    warmup_tokens: int
    total_tokens: int
    min_ratio: float = 0.1

    def __post_init__(self) -> None:
        if not 0 <= self.warmup_tokens < self.total_tokens:
            raise ValueError(
                f"warmup_tokens: want 0..total_tokens - 1 ({self.total_tokens - 1}), got {self.warmup_tokens}; "
                f"shorten the warm-up or train on more tokens"
            )
        if not 0.0 <= self.min_ratio <= 1.0:
            raise ValueError(f"min_ratio: want 0..1, got {self.min_ratio}; give a ratio of the peak learning rate")

    def factor(self, num_tokens: int) -> float:
        """What the peak learning rate is multiplied with once `num_tokens` were seen, the current step's included."""
        if num_tokens < self.warmup_tokens:
            return num_tokens / self.warmup_tokens
        done_ratio = (num_tokens - self.warmup_tokens) / (self.total_tokens - self.warmup_tokens)
        return self.min_ratio + (1.0 - self.min_ratio) * 0.5 * (1.0 + math.cos(math.pi * min(done_ratio, 1.0)))


@dataclass(frozen=True)
class ConstantSchedule:
    """Linear warm-up from 0, then flat."""

    warmup_tokens: int = 0

    def factor(self, num_tokens: int) -> float:
        """What the peak learning rate is multiplied with once `num_tokens` were seen."""
        return 1.0 if num_tokens >= self.warmup_tokens else num_tokens / self.warmup_tokens


@dataclass(frozen=True)
class BalanceRateSchedule:
    """Step of the loss-free bias: `rate` for the first `active_tokens`, then 0 (GLM-4.5 section 2: 1e-3, then 0)."""

    rate: float
    active_tokens: int

    def at(self, num_tokens: int) -> float:
        """The bias step once `num_tokens` were seen."""
        return self.rate if num_tokens <= self.active_tokens else 0.0
