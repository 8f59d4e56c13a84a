"""The answers, whole and as server-sent events, of the two completion endpoints."""

import json
import time
import uuid
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Protocol

from infra.server.protocol import FinishReason, TextEngine
from infra.server.worker import Piece, TokenLogprob

END_OF_STREAM = "data: [DONE]\n\n"


def sse(payload: dict[str, Any]) -> str:
    """One server-sent event."""
    return f"data: {json.dumps(payload, ensure_ascii=False, separators=(',', ':'))}\n\n"


def usage(num_prompt_tokens: int, num_completion_tokens: int) -> dict[str, int]:
    """Token counts; the stop token is not counted, because it is not part of the answer."""
    return {
        "prompt_tokens": num_prompt_tokens,
        "completion_tokens": num_completion_tokens,
        "total_tokens": num_prompt_tokens + num_completion_tokens,
    }


@dataclass(frozen=True)
class Head:
    """What every object of one answer begins with."""

    engine: TextEngine
    id_prefix: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    created_at: int = field(default_factory=lambda: int(time.time()))

    def fields(self, kind: str) -> dict[str, Any]:
        """id, object, created, model, fingerprint."""
        return {
            "id": f"{self.id_prefix}-{self.id}",
            "object": kind,
            "created": self.created_at,
            "model": self.engine.model_id,
            "system_fingerprint": self.engine.fingerprint,
        }


class AnswerForm(Protocol):
    """How an endpoint writes an answer and the events of a stream."""

    def whole(self, pieces: list[Piece], reason: FinishReason, counts: dict[str, int]) -> dict[str, Any]:
        """The answer as one object."""
        ...

    def first(self) -> dict[str, Any] | None:
        """The event before any text."""
        ...

    def piece(self, piece: Piece) -> dict[str, Any] | None:
        """The event of one piece; None when it has nothing to say."""
        ...

    def last(self, reason: FinishReason) -> dict[str, Any]:
        """The event that says why the answer ended."""
        ...

    def counts(self, counts: dict[str, int]) -> dict[str, Any]:
        """The event with the token counts."""
        ...


def _joined(pieces: Iterable[Piece]) -> str:
    return "".join(piece.text for piece in pieces)


@dataclass(frozen=True)
class ChatForm:
    """`chat.completion` and `chat.completion.chunk`."""

    head: Head
    with_logprobs: bool

    def _logprobs(self, tokens: Iterable[TokenLogprob | None]) -> dict[str, Any] | None:
        if not self.with_logprobs:
            return None
        entries = []
        for token in tokens:
            if token is not None:
                text = self.head.engine.decode([token.token_id])
                data = {"token": text, "bytes": list(text.encode()), "logprob": token.logprob, "top_logprobs": []}
                entries.append(data)
        return {"content": entries}

    def whole(self, pieces: list[Piece], reason: FinishReason, counts: dict[str, int]) -> dict[str, Any]:
        """The answer as one object."""
        message = {"role": "assistant", "content": _joined(pieces)}
        choice = {"index": 0, "message": message, "finish_reason": reason}
        choice["logprobs"] = self._logprobs(piece.token for piece in pieces)
        return self.head.fields("chat.completion") | {"choices": [choice], "usage": counts}

    def _chunk(self, delta: dict[str, Any], reason: str | None, logprobs: dict[str, Any] | None) -> dict[str, Any]:
        choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": reason}
        return self.head.fields("chat.completion.chunk") | {"choices": [choice]}

    def first(self) -> dict[str, Any] | None:
        """The event before any text."""
        return self._chunk({"role": "assistant", "content": ""}, None, None)

    def piece(self, piece: Piece) -> dict[str, Any] | None:
        """The event of one piece."""
        if not piece.text and not self.with_logprobs:
            return None
        return self._chunk({"content": piece.text}, None, self._logprobs([piece.token]))

    def last(self, reason: FinishReason) -> dict[str, Any]:
        """The event that says why the answer ended."""
        return self._chunk({}, reason, None)

    def counts(self, counts: dict[str, int]) -> dict[str, Any]:
        """The event with the token counts."""
        return self.head.fields("chat.completion.chunk") | {"choices": [], "usage": counts}


@dataclass
class CompletionForm:
    """`text_completion`, whole and in pieces."""

    head: Head
    with_logprobs: bool
    _num_chars: int = 0

    def _logprobs(self, pieces: Iterable[Piece]) -> dict[str, Any] | None:
        if not self.with_logprobs:
            return None
        texts, values, offsets = [], [], []
        for piece in pieces:
            if piece.token is not None:
                texts.append(self.head.engine.decode([piece.token.token_id]))
                values.append(piece.token.logprob)
                offsets.append(self._num_chars)
            self._num_chars += len(piece.text)
        return {"tokens": texts, "token_logprobs": values, "text_offset": offsets, "top_logprobs": None}

    def _object(self, text: str, reason: str | None, logprobs: dict[str, Any] | None) -> dict[str, Any]:
        choice = {"index": 0, "text": text, "logprobs": logprobs, "finish_reason": reason}
        return self.head.fields("text_completion") | {"choices": [choice]}

    def whole(self, pieces: list[Piece], reason: FinishReason, counts: dict[str, int]) -> dict[str, Any]:
        """The answer as one object."""
        return self._object(_joined(pieces), reason, self._logprobs(pieces)) | {"usage": counts}

    def first(self) -> dict[str, Any] | None:
        """Nothing comes before the text."""
        return None

    def piece(self, piece: Piece) -> dict[str, Any] | None:
        """The event of one piece."""
        if not piece.text and not self.with_logprobs:
            return None
        return self._object(piece.text, None, self._logprobs([piece]))

    def last(self, reason: FinishReason) -> dict[str, Any]:
        """The event that says why the answer ended."""
        return self._object("", reason, None)

    def counts(self, counts: dict[str, int]) -> dict[str, Any]:
        """The event with the token counts."""
        return self.head.fields("text_completion") | {"choices": [], "usage": counts}
