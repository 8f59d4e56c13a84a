"""What is a passage written in: English, Chinese or program code? Asked in English and in Chinese."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask, random_of

_ENGLISH = {"en": "English", "zh": "Chinese", "code": "code"}
_CHINESE = {"en": "英文", "zh": "中文", "code": "代码"}


class LanguageTask(InstructionTask):
    """The three kinds are equally frequent, so that no constant answer is right more often than one time in three."""

    kind: Literal["language"] = "language"
    max_train: int = Field(default=240, ge=0, description="training instructions of each language")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a document, as many of each kind."""
        by_kind = {lang: [d for d in documents if d.lang == lang] for lang in _ENGLISH}
        for same_rank in zip(*by_kind.values(), strict=False):
            for document in same_rank:
                passage = self.passage(document.text, is_chinese=document.lang == "zh")
                if random_of(document, self.kind).random() < 0.5:
                    question = f"{passage}\n\nIs this passage written in English, Chinese or code?"
                    yield self.item(document, question, _ENGLISH[document.lang], lang="en")
                else:
                    question = f"{passage}\n\n这段文字是英文、中文还是代码？"
                    yield self.item(document, question, _CHINESE[document.lang], lang="zh")
