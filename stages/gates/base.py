"""What a gate is: one verdict in words; and what a family of gates is: frozen limits that judge the evidence."""

from abc import abstractmethod
from collections.abc import Iterator
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stages.evidence import Evidence
from stages.plugins import Plugin


class Gate(BaseModel):
    """One verdict."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    about: str
    value: float
    bound: Literal["at least", "at most", "above"]
    threshold: float

    @property
    def passed(self) -> bool:
        """Whether the value keeps the bound."""
        if self.bound == "above":
            return self.value > self.threshold
        return self.value >= self.threshold if self.bound == "at least" else self.value <= self.threshold

    @property
    def reason(self) -> str:
        """The verdict in words."""
        verdict = "passed" if self.passed else "failed"
        return f"{self.name} {verdict}: want {self.bound} {self.threshold:.6g}, got {self.value:.6g} ({self.about})"


class GateFamily(Plugin):
    """Base of every family of gates; its fields are the limits, where a ratio of 0.005 is half a percent."""

    @abstractmethod
    def judge(self, evidence: Evidence) -> Iterator[Gate]:
        """Every gate of the family, in a fixed order."""
