"""Tokens to text, piece by piece: never half a character, never a stop string.

Law: the pieces joined are the decoded text of all tokens, cut before the first stop string.
"""

from collections.abc import Callable, Sequence

_INCOMPLETE = "\N{REPLACEMENT CHARACTER}"


class TextStream:
    """Feed tokens with `push`; it gives the text that is certain by now. `finish` gives what was held back."""

    def __init__(self, decode: Callable[[Sequence[int]], str], stop_strings: Sequence[str] = ()) -> None:
        self._decode = decode
        self._stop_strings = tuple(stop_strings)
        self._undecoded: list[int] = []
        self._held_text = ""
        self.is_stopped = False

    def push(self, token_id: int) -> str:
        """Text that this token makes certain; empty while a character or a possible stop string is incomplete."""
        self._undecoded.append(token_id)
        text = self._decode(self._undecoded)
        if text.endswith(_INCOMPLETE):
            return ""
        self._undecoded.clear()
        return self._release(text)

    def finish(self) -> str:
        """The rest, when no more tokens come."""
        if self.is_stopped:
            return ""
        text = self._release(self._decode(self._undecoded)) if self._undecoded else ""
        self._undecoded.clear()
        if not self.is_stopped:
            text, self._held_text = text + self._held_text, ""
        return text

    def _release(self, text: str) -> str:
        text = self._held_text + text
        found = [index for stop in self._stop_strings if (index := text.find(stop)) >= 0]
        if found:
            self.is_stopped = True
            self._held_text = ""
            return text[: min(found)]
        num_held = max((_overlap(text, stop) for stop in self._stop_strings), default=0)
        self._held_text = text[len(text) - num_held :]
        return text[: len(text) - num_held]


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that a stop string begins with."""
    return next((n for n in range(min(len(text), len(stop) - 1), 0, -1) if text.endswith(stop[:n])), 0)
