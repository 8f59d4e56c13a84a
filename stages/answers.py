"""Judging answers: is an answer right, and how often is a model right."""

import math
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from stages.records import Check, Instruction

if TYPE_CHECKING:
    from models.tokenizer import ChatTemplate

_NUMBER = re.compile(r"-?\d+")


def is_correct(check: Check, answer: str) -> bool:
    """Whether `answer` is right.

    `exact` wants the same text but for case, surrounding space and a final full stop; `choice` the same of one of few
    words; `number` that the last number in the answer is the wanted one.
    """
    if check.kind == "number":
        numbers = _NUMBER.findall(answer)
        return bool(numbers) and int(numbers[-1]) == int(check.answer)
    return _plain(answer) == _plain(check.answer)


def _plain(text: str) -> str:
    return " ".join(text.lower().split()).rstrip(".。")


@dataclass(frozen=True)
class Judged:
    """One instruction with a model's answer."""

    instruction: Instruction
    answer: str
    correct: bool
    stopped: bool  # ended by a stop token, not by the limit
    num_tokens: int = 0  # generated, the stop token included


@dataclass(frozen=True)
class Accuracy:
    """Share of right answers, with what it has to be compared with."""

    num_items: int
    accuracy: float
    standard_error: float
    constant_accuracy: float  # of the best answer that is always the same

    @property
    def beats_constant(self) -> bool:
        """Above the best constant answer by more than two standard errors."""
        return self.accuracy - self.constant_accuracy > 2 * self.standard_error


def accuracy_of(judged: Sequence[Judged]) -> Accuracy:
    """Accuracy of these answers. Raises ValueError when there are none."""
    if not judged:
        raise ValueError("answers: want at least one judged answer, got none; is the held-out split empty?")
    num_items = len(judged)
    accuracy = sum(j.correct for j in judged) / num_items
    constant = Counter(j.instruction.check.answer for j in judged).most_common(1)[0][1] / num_items
    return Accuracy(num_items, accuracy, math.sqrt(max(accuracy * (1 - accuracy), 1e-4) / num_items), constant)


def accuracy_by_task(judged: Sequence[Judged]) -> dict[str, Accuracy]:
    """Accuracy of each `task/lang`, in the order of the names."""
    groups: dict[str, list[Judged]] = {}
    for j in judged:
        groups.setdefault(f"{j.instruction.task}/{j.instruction.lang}", []).append(j)
    return {name: accuracy_of(groups[name]) for name in sorted(groups)}


def evenly(instructions: Sequence[Instruction], max_items: int) -> list[Instruction]:
    """At most `max_items` of these, the same number of each task and language as far as there are enough."""
    groups: dict[str, list[Instruction]] = {}
    for instruction in instructions:
        groups.setdefault(f"{instruction.task}/{instruction.lang}", []).append(instruction)
    chosen: list[Instruction] = []
    for depth in range(max(map(len, groups.values()), default=0)):
        chosen += [groups[name][depth] for name in sorted(groups) if depth < len(groups[name])]
    return chosen[:max_items]


def judge(
    model: Any,
    template: "ChatTemplate",
    instructions: Sequence[Instruction],
    *,
    max_new_tokens: int = 24,
    batch_size: int = 64,
) -> list[Judged]:
    """The model's greedy answers to these instructions, judged; in the order given."""
    from models.generate import generate

    prompts = [template.encode(instruction.prompt) for instruction in instructions]
    order = sorted(range(len(prompts)), key=lambda i: (len(prompts[i]), i))  # equal lengths together: little padding
    judged: dict[int, Judged] = {}
    for start in range(0, len(order), batch_size):
        batch = order[start : start + batch_size]
        generations = generate(
            model,
            [prompts[i] for i in batch],
            max_new_tokens=max_new_tokens,
            stop_ids=template.stop_ids,
            temperature=0.0,
        )
        for i, generation in zip(batch, generations, strict=True):
            answer = template.parse(generation.token_ids)
            correct = is_correct(instructions[i].check, answer)
            num_tokens, stopped = len(generation.token_ids), generation.finished == "stop"
            judged[i] = Judged(instructions[i], answer, correct, stopped, num_tokens)
    return [judged[i] for i in range(len(prompts))]
