"""Laws of the terminal chat, against a real server process."""

from collections.abc import Iterator

import pytest

from flows.chat import chat_loop
from tests.support.server_process import scripted_server


def reader(lines: list[str]):
    waiting = iter(lines)

    def read_line(_prompt: str) -> str:
        try:
            return next(waiting)
        except StopIteration:
            raise EOFError from None

    return read_line


@pytest.fixture
def short_server() -> Iterator[str]:
    with scripted_server("yes", max_context_tokens=24) as (_process, url):
        yield url


def test_the_conversation_is_kept_until_it_is_forgotten_or_does_not_fit(short_server: str):
    said: list[str] = []
    chat_loop(
        short_server, reader(["hello", "  ", "again, and longer", "/new", "again", "/quit", "never"]), said.append
    )
    text = "".join(said)
    assert text.count("yes\n") == 2
    assert "(messages: want at most 24 tokens with the answer, got 29 prompt tokens" in text
    assert "the conversation is forgotten" in text


def test_ctrl_c_stops_the_answer_and_not_the_chat():
    said: list[str] = []

    def write(piece: str) -> None:
        said.append(piece)
        if piece == "a" and said.count("a") == 2:
            raise KeyboardInterrupt

    with scripted_server("abc", is_endless=True) as (_process, url):
        chat_loop(url, reader(["hi", "/quit"]), write, temperature=0)
    assert "".join(said[1:]) == "abca (stopped)\n"


def test_the_key_is_shown_and_a_wrong_one_is_told():
    with scripted_server("yes", key="k") as (_process, url):
        said: list[str] = []
        chat_loop(url, reader(["hello", "/quit"]), said.append, api_key="k")
        chat_loop(url, reader(["hello", "/quit"]), said.append, api_key="other")
    assert "yes\n" in "".join(said) and "this server's key, got none or another" in "".join(said)
