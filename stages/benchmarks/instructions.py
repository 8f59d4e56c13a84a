"""Instruction accuracy: greedy answers to held-out instructions, judged by each item's own check.

The constant figure is what the best single answer would reach on the same items of a task: a model that has only learnt
the most frequent answer does not pass for one that reads.
"""

from typing import Literal

from stages.benchmarks.base import Benchmark, Measurement
from stages.means import mean_and_stderr
from stages.subject import Subject


class InstructionAccuracy(Benchmark):
    """Share of right answers in all and by task and language, with standard errors."""

    kind: Literal["instructions"] = "instructions"

    def measure(self, subject: Subject) -> Measurement:
        """Judge every answer."""
        from stages.answers import accuracy_by_task, accuracy_of

        judged = subject.judged
        total = accuracy_of(judged)
        metrics = {
            "eval/instruction_accuracy": total.accuracy,
            "eval/instruction_stderr": total.standard_error,
            "eval/instruction_items": float(total.num_items),
            "eval/answer_tokens": mean_and_stderr([float(one.num_tokens) for one in judged])[0],
            "eval/answers_stopped": mean_and_stderr([float(one.stopped) for one in judged])[0],
        }
        for task, found in accuracy_by_task(judged).items():
            metrics[f"eval/instruction_accuracy/{task}"] = found.accuracy
            metrics[f"eval/instruction_stderr/{task}"] = found.standard_error
            metrics[f"eval/instruction_items/{task}"] = float(found.num_items)
            metrics[f"eval/instruction_constant/{task}"] = found.constant_accuracy
        items: dict[str, dict[str, float | str]] = {
            "is_correct": {one.instruction.id: float(one.correct) for one in judged},
            "answer": {one.instruction.id: one.answer for one in judged},
        }
        return Measurement(metrics, items)
