"""What a document filter is: a frozen config that can judge one document."""

from abc import abstractmethod

from stages.plugins import Plugin
from stages.records import Document


class DocumentFilter(Plugin):
    """Judges a document whose text is normalised and whose language is identified."""

    @abstractmethod
    def reject_reason(self, document: Document) -> str | None:
        """The failed condition in snake_case (`fewer_than_min_bytes`), or None to keep the document."""
