"""Which library does an API page or a piece of code belong to? Its own name is taken out of the passage."""

import re
from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Literal

from pydantic import Field

from stages.records import Document, Instruction
from stages.tasks.base import InstructionTask, random_of


class LibraryTask(InstructionTask):
    """A choice among a few names in random order; the right one is among them."""

    kind: Literal["library"] = "library"
    num_choices: int = Field(default=3, ge=2, description="names to choose from")
    min_documents: int = Field(default=100, ge=1, description="documents a library needs to be asked for")

    def build(self, documents: Sequence[Document]) -> Iterator[Instruction]:
        """One instruction a document, libraries in turn so that the frequent ones do not drown the others."""
        pages = [d for d in documents if d.domain in {"api", "code"}]
        counts = Counter(_library(d) for d in pages)
        names = sorted(name for name, count in counts.items() if count >= self.min_documents)
        if len(names) < self.num_choices:
            return
        by_name = {name: [d for d in pages if _library(d) == name] for name in names}
        for rank in range(max(map(len, by_name.values()))):
            for name in names:
                if rank < len(by_name[name]):
                    yield self._ask(by_name[name][rank], name, names)

    def _ask(self, document: Document, name: str, names: list[str]) -> Instruction:
        rng = random_of(document, self.kind)
        choices = [*rng.sample([n for n in names if n != name], self.num_choices - 1), name]
        rng.shuffle(choices)
        hidden = re.sub(rf"\b{re.escape(name)}\b", "...", document.text, flags=re.IGNORECASE)
        question = f"{self.passage(hidden)}\n\nWhich library is this from: {', '.join(choices)}?"
        return self.item(document, question, name, lang="en")


def _library(document: Document) -> str:
    return document.source.split()[0]
