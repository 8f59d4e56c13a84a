"""Laws of the chat client, against a real server process."""

import pytest

from infra.errors import GlmflowError
from infra.server.client import ChatClient
from tests.support.server_process import scripted_server

HI = [{"role": "user", "content": "hi"}]


def test_pieces_join_to_the_answer_and_a_refusal_is_an_error_with_the_servers_words():
    with scripted_server("h\u00e9llo") as (process, url):
        client = ChatClient(url)
        assert client.health()["model"] == "scripted"
        assert "".join(client.stream(HI)) == "h\u00e9llo"
        with pytest.raises(GlmflowError, match="temperature: want less than or equal to 2, got 5"):
            list(client.stream(HI, temperature=5))
        process.kill()
        process.wait()
        with pytest.raises(GlmflowError, match="want a connection, got"):
            list(client.stream(HI))
