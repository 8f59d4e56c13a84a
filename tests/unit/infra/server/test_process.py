"""Laws of running the server, over a real socket."""

import os
import signal
import time

import httpx
import pytest

from infra.server.process import bind, url_of
from tests.support.server_process import scripted_server

CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50_000}


def until_idle(url: str) -> None:
    deadline = time.monotonic() + 5
    while httpx.get(f"{url}/health").json()["running"]:
        assert time.monotonic() < deadline, "the engine still runs"
        time.sleep(0.02)


def test_a_client_that_disconnects_stops_the_generation_and_sigterm_ends_the_process():
    with scripted_server(is_endless=True) as (process, url):
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=CHAT | {"stream": True}, timeout=10) as response:
            lines = response.iter_lines()
            assert next(lines).startswith("data: ")
            assert httpx.get(f"{url}/health").json()["running"] == 1
        until_idle(url)
        with pytest.raises(httpx.ReadTimeout):
            httpx.post(f"{url}/v1/chat/completions", json=CHAT, timeout=0.5)
        until_idle(url)
        os.kill(process.pid, signal.SIGTERM)
        assert process.wait(timeout=10) == 0
        assert int(process.stdout.read()) < 1000


def test_sigterm_lets_a_running_answer_finish():
    with scripted_server(is_endless=True) as (process, url):
        body = CHAT | {"stream": True, "max_tokens": 60}
        with httpx.stream("POST", f"{url}/v1/chat/completions", json=body, timeout=10) as response:
            lines = response.iter_lines()
            next(lines)
            os.kill(process.pid, signal.SIGTERM)
            rest = [line for line in lines if line]
        assert rest[-1] == "data: [DONE]"
        assert '"finish_reason":"length"' in rest[-2]
        assert process.wait(timeout=10) == 0


def test_port_zero_takes_a_free_port_and_a_taken_port_is_an_error():
    with bind("127.0.0.1", 0) as first:
        first.listen()
        port = first.getsockname()[1]
        assert url_of(first) == f"http://127.0.0.1:{port}"
        with pytest.raises(OSError, match="in use"):
            bind("127.0.0.1", port)
