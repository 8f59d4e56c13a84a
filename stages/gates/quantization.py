"""What packing the weights may cost in quality."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from stages.evidence import Evidence
from stages.gates.base import Gate, GateFamily


class QuantizationGates(GateFamily):
    """INT8 and INT4 against the full-precision model."""

    kind: Literal["quantization"] = "quantization"
    max_int8_perplexity_cost: float = Field(default=0.005, description="INT8 perplexity above the full model's, ratio")
    max_int4_perplexity_cost: float = Field(default=0.08, description="INT4 perplexity above the full model's, ratio")
    max_int8_accuracy_drop: float = Field(default=0.03, description="instruction accuracy INT8 may lose, 0-1")
    max_int4_accuracy_drop: float = Field(default=0.10, description="instruction accuracy INT4 may lose, 0-1")

    def judge(self, evidence: Evidence) -> Iterator[Gate]:
        """Perplexity and accuracy of each."""
        bounds = {
            "int8": (self.max_int8_perplexity_cost, self.max_int8_accuracy_drop),
            "int4": (self.max_int4_perplexity_cost, self.max_int4_accuracy_drop),
        }
        perplexity, accuracy = "eval/perplexity", "eval/instruction_accuracy"
        for name, (max_cost, max_drop) in bounds.items():
            yield Gate(
                name=f"{name}_perplexity_cost",
                about=f"held-out perplexity of {name.upper()} above the full model's, ratio",
                value=evidence.metric(name, perplexity) / evidence.metric("ppo", perplexity) - 1,
                bound="at most",
                threshold=max_cost,
            )
            yield Gate(
                name=f"{name}_accuracy_drop",
                about=f"instruction accuracy of the full model minus {name.upper()}'s",
                value=evidence.metric("ppo", accuracy) - evidence.metric(name, accuracy),
                bound="at most",
                threshold=max_drop,
            )
