"""Drop documents that repeat themselves (Gopher's repetition rules, Rae et al. 2021, in characters)."""

from typing import Literal

from pydantic import Field, PositiveInt

from stages.filters.base import DocumentFilter
from stages.records import Document


class RepetitionFilter(DocumentFilter):
    """Two measures that need no word splitting, so that they hold for Chinese and for code as well."""

    kind: Literal["repetition"] = "repetition"
    max_duplicate_line_ratio: float = Field(
        default=0.5, ge=0, le=1, description="characters in lines that stood before, 0-1 of all"
    )
    gram_chars: PositiveInt = Field(default=20, description="length of the character grams compared")
    max_repeated_gram_ratio: float = Field(
        default=0.6, ge=0, le=1, description="grams (at every gram_chars-th place) that stood before, 0-1 of all"
    )

    def reject_reason(self, document: Document) -> str | None:
        """`more_than_max_duplicate_lines` or `more_than_max_repeated_grams`."""
        lines = [line.strip() for line in document.text.split("\n") if line.strip()]
        num_chars = sum(map(len, lines))
        seen: set[str] = set()
        num_duplicate_chars = 0
        for line in lines:
            num_duplicate_chars += len(line) * (line in seen)
            seen.add(line)
        if num_duplicate_chars > self.max_duplicate_line_ratio * num_chars:
            return "more_than_max_duplicate_lines"
        text = " ".join(lines)
        grams = [text[i : i + self.gram_chars] for i in range(0, len(text), self.gram_chars)]
        if len(grams) - len(set(grams)) > self.max_repeated_gram_ratio * len(grams):
            return "more_than_max_repeated_grams"
        return None
