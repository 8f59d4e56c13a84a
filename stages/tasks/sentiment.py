"""Is a Chinese review positive or negative? The label is the source's."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask

_ANSWERS = {"positive": "正面", "negative": "负面"}


class SentimentTask(InstructionTask):
    """`正面` or `负面`."""

    kind: Literal["sentiment"] = "sentiment"
    max_train: int = Field(default=1200, ge=0, description="training instructions of each language")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a labelled review."""
        for document in documents:
            if document.domain == "review" and document.lang == "zh" and document.meta.get("label") in _ANSWERS:
                review = self.passage(document.text, is_chinese=True)
                question = f"评价：{review}\n这条评价是正面还是负面？"
                yield self.item(document, question, _ANSWERS[document.meta["label"]], lang="zh")
