"""Sums and differences of small numbers, asked in English and in Chinese. Needs no document."""

from collections.abc import Iterator, Sequence
from itertools import product
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask


class ArithmeticTask(InstructionTask):
    """The held-out pairs of numbers are never seen in training, in either language."""

    kind: Literal["arithmetic"] = "arithmetic"
    phase: int = Field(default=1, ge=0, description="curriculum phase: 0 first")
    max_train: int = Field(default=400, ge=0, description="training instructions of each language")
    max_number: int = Field(default=30, ge=1, description="largest number in a question")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """Every sum, and every difference that is not negative."""
        for a, b in product(range(self.max_number + 1), repeat=2):
            yield self.item(None, f"What is {a} + {b}?", str(a + b), lang="en", kind="number")
            yield self.item(None, f"{a} + {b} 等于多少？", str(a + b), lang="zh", kind="number")
            if a >= b:
                yield self.item(None, f"What is {a} - {b}?", str(a - b), lang="en", kind="number")
                yield self.item(None, f"{a} - {b} 等于多少？", str(a - b), lang="zh", kind="number")
