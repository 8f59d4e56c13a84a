"""The terminal chat: read a line, stream the answer, keep the conversation. Talks HTTP to a server process."""

from collections.abc import Callable, Iterator
from typing import Any

from infra.errors import GlmflowError
from infra.server.client import ChatClient

HELP = "Type a message. /new forgets the conversation, /quit or Ctrl-D ends, Ctrl-C stops an answer."
PROMPT = "you> "


def chat_loop(
    url: str,
    read_line: Callable[[str], str],
    write: Callable[[str], Any],
    *,
    api_key: str = "",
    temperature: float | None = 0.0,
) -> None:
    """Talk to the server at `url` until /quit or the end of the input. `read_line` is `input`, or acts like it.

    A small model says its surest answer best, so the temperature is 0; None leaves it to the server.
    """
    client = ChatClient(url, api_key)
    settings = {} if temperature is None else {"temperature": temperature}
    messages: list[dict[str, str]] = []
    write(f"{client.health()['model']}: {HELP}\n")
    try:
        for line in _lines(read_line):
            if line == "/quit":
                return
            if line == "/new":
                messages = []
                write("(the conversation is forgotten)\n")
                continue
            answer = _answer(client, [*messages, {"role": "user", "content": line}], settings, write)
            if answer:
                messages += [{"role": "user", "content": line}, {"role": "assistant", "content": answer}]
    finally:
        client.close()


def _lines(read_line: Callable[[str], str]) -> Iterator[str]:
    while True:
        try:
            line = read_line(PROMPT).strip()
        except (EOFError, KeyboardInterrupt):
            return
        if line:
            yield line


def _answer(
    client: ChatClient, messages: list[dict[str, str]], settings: dict[str, float], write: Callable[[str], Any]
) -> str:
    """Stream one answer; what was said before Ctrl-C counts as the answer. Empty when the server refuses."""
    pieces: list[str] = []
    stream = client.stream(messages, **settings)
    try:
        for piece in stream:
            pieces.append(piece)
            write(piece)
    except KeyboardInterrupt:
        write(" (stopped)")
    except GlmflowError as error:
        write(f"({error}; /new starts afresh)\n")
        return ""
    finally:
        stream.close()  # type: ignore[attr-defined]  # a generator; closing it tells the server to stop
    write("\n")
    return "".join(pieces)
