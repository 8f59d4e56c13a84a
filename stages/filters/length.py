"""Keep documents whose size lies in a range."""

from typing import Literal

from pydantic import Field, PositiveInt

from stages.filters.base import DocumentFilter
from stages.records import Document


class LengthFilter(DocumentFilter):
    """Sizes in UTF-8 bytes: an ideograph counts three, about what it says compared with a Latin letter."""

    kind: Literal["length"] = "length"
    min_bytes: PositiveInt = Field(default=80, description="smallest document, in UTF-8 bytes")
    max_bytes: PositiveInt = Field(default=100_000, description="largest document, in UTF-8 bytes")

    def reject_reason(self, document: Document) -> str | None:
        """`fewer_than_min_bytes` or `more_than_max_bytes`."""
        num_bytes = len(document.text.encode())
        if num_bytes < self.min_bytes:
            return "fewer_than_min_bytes"
        if num_bytes > self.max_bytes:
            return "more_than_max_bytes"
        return None
