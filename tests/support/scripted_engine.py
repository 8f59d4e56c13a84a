"""An engine without a model: one token per UTF-8 byte, and answers that are known before."""

import threading
import time
from collections.abc import Sequence

from infra.server.protocol import ChatTurn, FinishReason, OnToken, Sampling

NUM_BYTES = 256
STOP_ID = 256
ROLE_ID = 257


class ScriptedEngine:
    """Answers with `reply`, over and over if `is_endless`; `failure` is raised instead where given."""

    model_id = "scripted"
    fingerprint = "fp-0"
    weights_sha256 = "0" * 64
    vocab_size = 258
    max_context_tokens = 400
    default_temperature = 1.0
    default_top_p = 1.0

    def __init__(self, reply: str = "h\u00e9 \u4f60", *, is_endless: bool = False, delay_s: float = 0.0) -> None:
        self.reply = list(reply.encode())
        self.is_endless = is_endless
        self.delay_s = delay_s
        self.failure: Exception | None = None
        self.num_sampled = 0
        self.samplings: list[Sampling] = []
        self.prompts: list[list[int]] = []
        self.threads: set[str] = set()

    def encode_chat(self, turns: Sequence[ChatTurn]) -> list[int]:
        """Role tokens have an id of their own that no text gives."""
        if any(turn.role == "system" for turn in turns[1:]):
            raise ValueError("want the system message first; move it there")
        return [token for turn in turns for token in (ROLE_ID, *turn.content.encode())] + [ROLE_ID]

    def encode_text(self, text: str) -> list[int]:
        """Bytes."""
        return list(text.encode())

    def decode(self, token_ids: Sequence[int]) -> str:
        """Bytes back to text."""
        return bytes(token for token in token_ids if token < NUM_BYTES).decode(errors="replace")

    def generate(self, prompt_ids: Sequence[int], sampling: Sampling, on_token: OnToken) -> FinishReason:
        """The reply, token by token."""
        self.prompts.append(list(prompt_ids))
        self.samplings.append(sampling)
        self.threads.add(threading.current_thread().name)
        if self.failure:
            raise self.failure
        for step in range(sampling.max_new_tokens):
            if step >= len(self.reply) and not self.is_endless:
                return "stop"
            time.sleep(self.delay_s)
            self.num_sampled += 1
            if not on_token(self.reply[step % len(self.reply)], -0.5):
                return "stop"
        return "length"
