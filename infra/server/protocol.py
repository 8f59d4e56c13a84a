"""What the server asks of an engine: token ids in, tokens out, and text on both sides of them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

FinishReason = Literal["stop", "length"]
OnToken = Callable[[int, float], bool]  # (token id, its log-probability) -> go on?


@dataclass(frozen=True)
class ChatTurn:
    """One message of a conversation; `content` is plain text, whatever looks like a role token in it stays text."""

    role: Literal["system", "user", "assistant", "observation"]
    content: str


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen."""

    max_new_tokens: int
    temperature: float  # 0 = always the likeliest token
    top_p: float
    seed: int | None = None  # None = another one each time


@dataclass(frozen=True)
class Access:
    """Who may ask, and how much at a time."""

    key: str = ""  # "" = everybody
    max_body_bytes: int = 8 * 2**20
    has_open_metrics: bool = False  # without the key, too


class TextEngine(Protocol):
    """One loaded model. `generate` is only ever called from one thread; the other methods from any."""

    model_id: str
    fingerprint: str  # changes when the weights change
    weights_sha256: str
    vocab_size: int
    max_context_tokens: int
    default_temperature: float
    default_top_p: float

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        """Token ids of a conversation up to where the assistant answers. ValueError for an order it cannot take."""
        ...

    def encode_text(self, text: str) -> list[int]:
        """Token ids of a text that is to be continued."""
        ...

    def decode(self, token_ids: Sequence[int]) -> str:
        """Text of these tokens without special tokens; incomplete UTF-8 gives U+FFFD."""
        ...

    def generate(self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken) -> FinishReason:
        """Sample until a stop token (not handed to `on_token`), the length limit, or `on_token` says False."""
        ...
