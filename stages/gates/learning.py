"""Whether pretraining and instruction tuning taught the model something."""

from collections.abc import Iterator
from typing import Literal

from pydantic import Field

from stages.evaluation_file import EvaluatedModel
from stages.evidence import Evidence
from stages.gates.base import Gate, GateFamily

_CONSTANT = "eval/instruction_constant/"


class LearningGates(GateFamily):
    """Held-out text for the pretrained model, held-out instructions for the tuned one."""

    kind: Literal["learning"] = "learning"
    min_unigram_gain_ratio: float = Field(
        default=0.20, description="pretrained bits per byte below the unigram model's, as a share of those"
    )
    min_sft_accuracy_gain: float = Field(default=0.10, description="instruction accuracy of SFT minus base, 0-1")
    min_tasks_above_constant: int = Field(
        default=2, ge=0, description="tasks whose accuracy beats the best constant answer by two standard errors"
    )
    min_items_of_task: int = Field(default=200, ge=1, description="held-out items that make a task count")
    tasks_not_counted: tuple[str, ...] = Field(
        default=("arithmetic",), description="tasks that never count as above constant"
    )

    def judge(self, evidence: Evidence) -> Iterator[Gate]:
        """Against a unigram model, the pretrained model, and the best constant answers."""
        unigram = evidence.metric("base", "eval/unigram_bits_per_byte")
        yield Gate(
            name="pretraining_beats_unigram",
            about="held-out bits per byte of the pretrained model below the unigram model's, ratio",
            value=1 - evidence.metric("base", "eval/bits_per_byte") / unigram,
            bound="at least",
            threshold=self.min_unigram_gain_ratio,
        )
        accuracy = "eval/instruction_accuracy"
        yield Gate(
            name="sft_accuracy_gain",
            about="instruction accuracy of the SFT model minus the pretrained model's",
            value=evidence.metric("sft", accuracy) - evidence.metric("base", accuracy),
            bound="at least",
            threshold=self.min_sft_accuracy_gain,
        )
        above = self.tasks_above_constant(evidence.models["sft"])
        yield Gate(
            name="tasks_above_constant",
            about=f"tasks that beat the best constant answer by two standard errors: {', '.join(above) or 'none'}",
            value=len(above),
            bound="at least",
            threshold=self.min_tasks_above_constant,
        )

    def tasks_above_constant(self, model: EvaluatedModel) -> tuple[str, ...]:
        """Tasks that count and beat the best constant answer by two standard errors of their accuracy."""
        return tuple(sorted(task for task in self._counted(model) if _beats_constant(model, task)))

    def _counted(self, model: EvaluatedModel) -> Iterator[str]:
        for task in (name.removeprefix(_CONSTANT) for name in model.about.metrics if name.startswith(_CONSTANT)):
            num_items = model.metric(f"eval/instruction_items/{task}")
            if task.split("/")[0] not in self.tasks_not_counted and num_items >= self.min_items_of_task:
                yield task


def _beats_constant(model: EvaluatedModel, task: str) -> bool:
    gain = model.metric(f"eval/instruction_accuracy/{task}") - model.metric(_CONSTANT + task)
    return gain > 2 * model.metric(f"eval/instruction_stderr/{task}")
