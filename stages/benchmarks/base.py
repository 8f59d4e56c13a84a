"""What a benchmark is: a frozen config that measures one subject."""

from abc import abstractmethod
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
