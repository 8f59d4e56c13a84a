"""What is the function in a piece of code called? An extraction task: the name stands in the prompt."""

import ast
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask
from stages.tasks.returns_value import functions_in


class SymbolNameTask(InstructionTask):
    """The name, letter for letter."""

    kind: Literal["symbol_name"] = "symbol_name"
    phase: int = Field(default=1, ge=0, description="curriculum phase: 0 first")
    max_name_chars: int = Field(default=24, ge=1, description="longest name asked for, in characters")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a function whose name is not long; its first line is shown."""
        for document in documents:
            for function in functions_in(document):
                if len(function.name) <= self.max_name_chars and not function.name.startswith("__"):
                    head = f"def {function.name}({ast.unparse(function.args)}):"
                    question = f"{self.passage(head)}\n\nWhat is this function called?"
                    yield self.item(document, question, function.name, lang="en", kind="exact")
