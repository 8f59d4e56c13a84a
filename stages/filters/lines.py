"""Drop documents with over-long lines without spaces or sentence ends: minified code, encoded data."""

import re
from typing import Literal

from pydantic import Field, PositiveInt

from stages.filters.base import DocumentFilter
from stages.records import Document

_BREAK = re.compile(r"[\s\u3000-\u303f\uff00-\uff65]+")


class LinesFilter(DocumentFilter):
    """Looks at the longest run of characters without a space or a full-width punctuation mark."""

    kind: Literal["lines"] = "lines"
    max_unbroken_chars: PositiveInt = Field(default=200, description="longest run without a break, in characters")

    def reject_reason(self, document: Document) -> str | None:
        """`longer_than_max_unbroken`."""
        longest = max(map(len, _BREAK.split(document.text)))
        return "longer_than_max_unbroken" if longest > self.max_unbroken_chars else None
