"""A decision artifact on disk: `decision.json`, whether a challenger beats the champion, with the figures behind it."""

from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict

from stages.paired_tests import Comparison

DECISION_NAME = "decision.json"
Verdict = Literal["won", "lost", "undecided", "gates_failed", "unchanged"]


class DecisionFile(BaseModel):
    """`decision.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    champion: str
    challenger: str
    verdict: Verdict
    reason: str
    alpha: float
    comparisons: tuple[Comparison, ...]
    failed_gates: tuple[str, ...]
    num_documents_left_out: int
    num_instructions_left_out: int

    def markdown(self) -> str:
        """The decision as a section of a model card."""
        lines = [
            "## Champion and challenger",
            "",
            f"Challenger `{self.challenger[:12]}` against champion `{self.champion[:12]}`: **{self.verdict}**. "
            f"{self.reason}",
            "",
            "| on the same frozen held-out items | champion | challenger | items | better | worse | p |",
            "|---|---:|---:|---:|---:|---:|---:|",
            *(_row(one) for one in self.comparisons),
            "",
            f"Two-sided paired tests, level {self.alpha:g} for a loss, {self.alpha:g} shared by all figures for a win. "
            f"Left out, because the challenger was trained on them: {self.num_documents_left_out} documents, "
            f"{self.num_instructions_left_out} instructions.",
            *(f"- {gate}" for gate in self.failed_gates),
        ]
        return "\n".join(lines) + "\n"


def _row(one: Comparison) -> str:
    cells = (
        one.metric.replace("_", " "), f"{one.champion:.4f}", f"{one.challenger:.4f}", f"{one.num_items:,}",
        f"{one.num_better:,}", f"{one.num_worse:,}", f"{one.p_value:.4g}",
    )  # fmt: skip
    return f"| {' | '.join(cells)} |"


def read_decision(directory: Path) -> DecisionFile:
    """The decision of an artifact."""
    return DecisionFile.model_validate_json((directory / DECISION_NAME).read_bytes())
