"""Laws of running the server, over a real socket."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from infra.server.process import bind, url_of

ROOT = Path(__file__).parents[4]
CODE = """
import sys
from infra.server.app import create_app
from infra.server.process import bind, serve, url_of
from tests.support.scripted_engine import ScriptedEngine
listener = bind("127.0.0.1", 0)
engine = ScriptedEngine("abc", is_endless=True, delay_s=0.01)
engine.max_context_tokens = 100_000
serve(create_app(engine), listener, lambda: print(url_of(listener), flush=True))
print(engine.num_sampled, flush=True)
"""
CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}], "max_tokens": 50_000}


@pytest.fixture
def server() -> Iterator[tuple[subprocess.Popen, str]]:
    process = subprocess.Popen([sys.executable, "-c", CODE], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    try:
        yield process, process.stdout.readline().strip()
    finally:
        process.kill()
        process.wait()


def until_idle(url: str) -> None:
    deadline = time.monotonic() + 5
    while httpx.get(f"{url}/health").json()["running"]:
        assert time.monotonic() < deadline, "the engine still runs"
        time.sleep(0.02)


def test_a_client_that_disconnects_stops_the_generation_and_sigterm_ends_the_process(server):
    process, url = server
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


def test_sigterm_lets_a_running_answer_finish(server):
    process, url = server
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
