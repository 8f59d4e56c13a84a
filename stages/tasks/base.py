"""What an instruction task is: questions about documents, with answers that can be checked."""

import hashlib
import random
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field, NonNegativeInt, PositiveInt

from stages.plugins import Plugin
from stages.records import Check, Document, Instruction, Turn


class InstructionTask(Plugin):
    """Builds instructions from documents. The same document always gives the same instructions."""

    phase: NonNegativeInt = Field(default=0, description="curriculum phase: 0 first")
    max_train: NonNegativeInt = Field(default=600, description="training instructions of each language")
    max_heldout: NonNegativeInt = Field(default=250, description="held-out instructions of each language")
    max_passage_chars: PositiveInt = Field(
        default=240, description="longest passage shown, in characters; a third in Chinese"
    )

    @abstractmethod
    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """Every instruction that these documents give; the stage splits and limits them."""

    def item(
        self,
        document: Document | None,
        question: str,
        answer: str,
        *,
        lang: str,
        kind: Literal["exact", "choice", "number"] = "choice",
    ) -> Instruction:
        """One instruction; `document` is None where the question needs none."""
        doc_id = document.id if document else ""
        identity = hashlib.sha256(f"{type(self).__name__}\n{doc_id}\n{question}".encode()).hexdigest()[:16]
        turns = (Turn(role="user", content=question), Turn(role="assistant", content=answer))
        task: str = type(self).model_fields["kind"].default
        return Instruction(
            id=identity,
            task=task,
            lang=lang,
            phase=self.phase,
            messages=turns,
            doc_id=doc_id,
            check=Check(kind=kind, answer=answer),
        )

    def passage(self, text: str, *, is_chinese: bool = False) -> str:
        """The beginning of a text, cut to what is shown."""
        limit = self.max_passage_chars // 3 if is_chinese else self.max_passage_chars
        return text[:limit].strip()


def random_of(document: Document, purpose: str) -> random.Random:
    """A generator that depends on the document and the purpose only."""
    return random.Random(hashlib.sha256(f"{purpose}\n{document.id}".encode()).digest())
