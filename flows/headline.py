"""A stage's main metric as people read it: `bits per byte 2.51 -> 1.83`."""

from dataclasses import dataclass

from infra.lineage import StageRecord
from stages.contract import Headline


@dataclass(frozen=True)
class HeadlineValue:
    """The main metric of one finished stage; None where the stage did not log it."""

    label: str
    before: float | None
    after: float | None

    @classmethod
    def of(cls, headline: Headline, record: StageRecord) -> "HeadlineValue":
        """Read the values from the stage's record."""
        before = record.metrics.get(headline.before) if headline.before else None
        return cls(headline.label, before, record.metrics.get(headline.after))

    def __str__(self) -> str:
        if self.after is None:
            return ""
        change = f"{short_number(self.before)} -> " if self.before is not None else ""
        return f"{self.label} {change}{short_number(self.after)}"


def short_number(value: float) -> str:
    """At most four significant digits; counts in full, with separators."""
    if float(value).is_integer() and abs(value) < 1e15:
        return f"{int(value):,}"
    return f"{value:.4g}" if abs(value) < 10_000 else f"{value:,.0f}"


def short_bytes(num_bytes: float) -> str:
    """A size in the unit that people read."""
    for unit in ("B", "KiB", "MiB"):
        if num_bytes < 1024:
            return f"{num_bytes:.0f} {unit}" if unit == "B" else f"{num_bytes:.1f} {unit}"
        num_bytes /= 1024
    return f"{num_bytes:.2f} GiB"


def short_duration(seconds: float) -> str:
    """`0.4 s`, `37 s`, `5 min 12 s`."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    minutes, rest_s = divmod(round(seconds), 60)
    return f"{minutes} min {rest_s:02d} s" if minutes else f"{rest_s} s"
