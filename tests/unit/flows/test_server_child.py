"""The server process is started with the model, told apart from its log, and ended."""

import sys
from pathlib import Path

import pytest

from flows import server_child
from flows.server_child import ServerChild, serving_command, serving_environment
from infra.errors import StageFailedError
from infra.settings import Settings
from tests.support.launched_stage import is_alive


def serve_with(code: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> ServerChild:
    monkeypatch.setattr(server_child, "serving_command", lambda *_, **__: [sys.executable, "-c", code])
    return ServerChild(tmp_path, Settings(home=tmp_path))


def test_the_address_is_read_from_the_log_and_the_server_ends_with_the_chat(monkeypatch, tmp_path: Path):
    code = "import time; print('a warning'); print('listening on http://127.0.0.1:1', flush=True); time.sleep(60)"
    server = serve_with(code, monkeypatch, tmp_path)
    assert server.url() == "http://127.0.0.1:1"
    pid = server._child.pid
    server.close()
    assert not is_alive(pid) and not server.log_path.exists()


def test_a_server_that_gives_up_says_why(monkeypatch, tmp_path: Path):
    server = serve_with("print('model x: want a model directory')", monkeypatch, tmp_path)
    with pytest.raises(StageFailedError, match="got 'model x: want a model directory'; its log is"):
        server.url()
    server.close()


def test_the_command_and_its_environment(tmp_path: Path):
    command = serving_command(tmp_path, "0.0.0.0", 0)
    assert command[1:4] == ["-P", "-m", "stages.serving"] and command[-4:] == ["--host", "0.0.0.0", "--port", "0"]
    assert serving_command(tmp_path, "0.0.0.0", 0, is_without_key=True)[-1] == "--without-key"
    assert serving_environment(Settings(home=tmp_path, threads=3))["GLMFLOW_THREADS"] == "3"
