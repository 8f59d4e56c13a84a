"""A small client of the server's chat endpoint: what the terminal chat needs, and nothing else."""

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import httpx

from infra.errors import GlmflowError

_CONNECT_TIMEOUT_S = 5.0


class ChatClient:
    """One server. Raises GlmflowError with the server's own words when it refuses."""

    def __init__(self, url: str, api_key: str = "") -> None:
        timeout = httpx.Timeout(None, connect=_CONNECT_TIMEOUT_S)  # a slow machine may think long about an answer
        headers = {"Authorization": f"Bearer {api_key}"} if api_key else {}
        self._http = httpx.Client(base_url=url, headers=headers, timeout=timeout, trust_env=False)

    def health(self) -> dict[str, Any]:
        """What is served."""
        with self._in_words():
            found: dict[str, Any] = _checked(self._http.get("/health")).json()
        return found

    def stream(self, messages: Sequence[Mapping[str, Any]], **settings: Any) -> Iterator[str]:
        """Pieces of the assistant's answer; closing the iterator stops the generation."""
        body = {"model": self.health()["model"], "messages": list(messages), "stream": True, **settings}
        with self._in_words(), self._http.stream("POST", "/v1/chat/completions", json=body) as response:
            if response.status_code != httpx.codes.OK:
                response.read()
            yield from _pieces(_checked(response).iter_lines())

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except httpx.TransportError as error:
            message = f"server {self._http.base_url}: want a connection, got {error}; is the server running?"
            raise GlmflowError(message) from error


def _checked(response: httpx.Response) -> httpx.Response:
    if response.status_code != httpx.codes.OK:
        raise GlmflowError(str(response.json()["error"]["message"]))
    return response


def _pieces(lines: Iterator[str]) -> Iterator[str]:
    for line in lines:
        if not line.startswith("data: ") or line == "data: [DONE]":
            continue
        event = json.loads(line.removeprefix("data: "))
        if "error" in event:
            raise GlmflowError(str(event["error"]["message"]))
        for choice in event["choices"]:
            if text := choice["delta"].get("content"):
                yield text
