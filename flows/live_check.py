"""Does the model that is about to serve everybody answer as it did when it was evaluated? Asked over HTTP."""

from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.server_child import ServerChild
from infra.errors import GlmflowError
from infra.server.client import ChatClient
from infra.settings import Settings

MAX_QUESTIONS = 8
MAX_OTHER_ANSWERS = 1  # of them: where two tokens are all but equally likely, a batch may choose the other one


@dataclass(frozen=True)
class Question:
    """A prompt, and the greedy answer that the evaluation recorded."""

    messages: Sequence[Mapping[str, Any]]
    answer: str


@dataclass(frozen=True)
class LiveCheck:
    """Serves a model on a free port and asks the questions, greedily."""

    questions: Sequence[Question]
    max_new_tokens: int

    def problem(self, model_dir: Path, settings: Settings) -> str:
        """What is wrong with the served model, in words; "" when nothing is."""
        try:
            with closing(ServerChild(model_dir, settings)) as server, closing(ChatClient(server.url())) as client:
                answers = [self._ask(client, question) for question in self.questions]
        except GlmflowError as error:
            return f"live check: want a server that answers, got {error}"
        pairs = zip(self.questions, answers, strict=True)
        others = [(q.answer, answer) for q, answer in pairs if q.answer.strip() != answer.strip()]
        if len(others) <= MAX_OTHER_ANSWERS:
            return ""
        wanted, got = others[0]
        return (
            f"live check: want the answers of the evaluation, got {len(others)} of {len(answers)} others, the first "
            f"{got[:60]!r} where {wanted[:60]!r} was expected"
        )

    def _ask(self, client: ChatClient, question: Question) -> str:
        return "".join(client.stream(question.messages, temperature=0.0, max_tokens=self.max_new_tokens))
