"""Keep documents in the wanted languages."""

from typing import Literal

from pydantic import Field

from stages.filters.base import DocumentFilter
from stages.records import Document


class LanguageFilter(DocumentFilter):
    """Keeps what `stages.languages` found to be one of `languages`."""

    kind: Literal["language"] = "language"
    languages: tuple[str, ...] = Field(default=("en", "zh", "code"), description="ISO 639-1 codes to keep, and `code`")

    def reject_reason(self, document: Document) -> str | None:
        """`language_not_wanted` for any other language."""
        return None if document.lang in self.languages else "language_not_wanted"
