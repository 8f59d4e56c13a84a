"""What does a command or function do? Its manual's NAME line stands in the prompt; asked in the manual's language."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask


class ManualTask(InstructionTask):
    """An extraction task: the answer is the summary, word for word."""

    kind: Literal["manual"] = "manual"
    phase: int = Field(default=1, ge=0, description="curriculum phase: 0 first")
    max_summary_chars: int = Field(default=60, ge=1, description="longest summary asked for, in characters")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a page with a NAME line in its own language."""
        for document in documents:
            name, summary = document.meta.get("name", ""), document.meta.get("summary", "")
            if document.domain != "manual" or not name or not 0 < len(summary) <= self.max_summary_chars:
                continue
            if document.lang == "zh" and not summary.isascii():
                question = f"{name} - {summary}\n\n{name} 的作用是什么？"
                yield self.item(document, question, summary, lang="zh", kind="exact")
            elif document.lang == "en" and summary.isascii():
                question = f"{name} - {summary}\n\nWhat does {name} do?"
                yield self.item(document, question, summary, lang="en", kind="exact")
