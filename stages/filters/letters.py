"""Drop documents that are mostly digits, symbols and drawing: tables of numbers, encoded data, banners."""

from typing import Literal

from pydantic import Field

from stages.filters.base import DocumentFilter
from stages.records import Document


class LettersFilter(DocumentFilter):
    """Letters of every script count, ideographs too; spaces are left out."""

    kind: Literal["letters"] = "letters"
    min_letter_ratio: float = Field(default=0.5, ge=0, le=1, description="letters among characters but spaces, 0-1")

    def reject_reason(self, document: Document) -> str | None:
        """`fewer_than_min_letters`."""
        visible = "".join(document.text.split())
        num_letters = sum(map(str.isalpha, visible))
        return "fewer_than_min_letters" if num_letters < self.min_letter_ratio * len(visible) else None
