"""What a benchmark is: a frozen config that measures one subject."""

import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field

from stages.plugins import Plugin
from stages.subject import Subject


@dataclass(frozen=True)
class Measurement:
    """Metrics by name, and per-item values by name and item id (for paired comparisons of two models)."""

    metrics: dict[str, float]
    items: dict[str, dict[str, float | str]] = field(default_factory=dict)


class Benchmark(Plugin):
    """Base of every benchmark."""

    @abstractmethod
    def measure(self, subject: Subject) -> Measurement:
        """Measure; the same subject gives the same figures."""


def mean_and_stderr(values: Sequence[float]) -> tuple[float, float]:
    """Mean and its standard error (sample variance); 0 for a single value."""
    mean = math.fsum(values) / len(values)
    if len(values) < 2:
        return mean, 0.0
    variance = math.fsum((value - mean) ** 2 for value in values) / (len(values) - 1)
    return mean, math.sqrt(variance / len(values))
