"""Document filters. To add one: write `stages/filters/<kind>.py`, then list its kind here."""

from typing import TYPE_CHECKING

from stages.filters.base import DocumentFilter
from stages.plugins import plugin_union

FILTER_KINDS = (
    "language",
    "length",
    "letters",
    "lines",
    "repetition",
)

if TYPE_CHECKING:
    AnyFilter = DocumentFilter
else:
    AnyFilter = plugin_union(__name__, FILTER_KINDS, DocumentFilter)
