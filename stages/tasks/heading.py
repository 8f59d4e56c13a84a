"""Which heading does a passage stand under? The headings of the same page are the choices."""

from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask, random_of

_LETTERS = "ABCD"
_MAX_HEADING_CHARS = 50


class HeadingTask(InstructionTask):
    """A choice among lettered headings; the heading itself is cut from the passage."""

    kind: Literal["heading"] = "heading"
    phase: int = Field(default=1, ge=0, description="curriculum phase: 0 first")
    max_train: int = Field(default=400, ge=0, description="training instructions of each language")
    num_choices: int = Field(default=3, ge=2, le=len(_LETTERS), description="headings to choose from")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a section whose page has enough other headings."""
        headings: dict[str, set[str]] = {}
        sections = [
            d for d in documents if d.domain == "doc" and len(d.meta.get("title", "")) in range(3, _MAX_HEADING_CHARS)
        ]
        for document in sections:
            headings.setdefault(document.meta["file"], set()).add(document.meta["title"])
        for document in sections:
            title = document.meta["title"]
            others = sorted(headings[document.meta["file"]] - {title})
            body = document.text.split("\n", 2)[-1].strip()
            if len(others) < self.num_choices - 1 or not body:
                continue
            rng = random_of(document, self.kind)
            choices = [*rng.sample(others, self.num_choices - 1), title]
            rng.shuffle(choices)
            listed = "\n".join(f"{letter}. {choice}" for letter, choice in zip(_LETTERS, choices, strict=False))
            question = f"{self.passage(body)}\n\nWhich heading does this stand under?\n{listed}"
            yield self.item(document, question, _LETTERS[choices.index(title)], lang="en")
