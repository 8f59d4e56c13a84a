"""Means with their standard errors."""

import math
from collections.abc import Sequence


def mean_and_stderr(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (sample variance); 0 for a single value. Raises ValueError when there is none."""
    if not values:
        raise ValueError("mean: want at least one value, got none; nothing was measured")
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))
