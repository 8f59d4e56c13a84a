"""`glmflow chat` starts a server, talks to it, and ends it, however the chat ends."""

import argparse
from pathlib import Path

import pytest

from flows.commands import chat


class Server:
    api_key = "k"
    closed = 0

    def __init__(self, model_dir: Path, settings: object) -> None:
        self.model_dir = model_dir

    def url(self) -> str:
        return "http://here"

    def close(self) -> None:
        Server.closed += 1


def test_the_server_is_ended_when_the_chat_ends_and_when_it_breaks(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    (tmp_path / "config.json").write_text("{}")
    monkeypatch.setattr(chat, "ServerChild", Server)
    talked: list[str] = []
    monkeypatch.setattr(chat, "chat_loop", lambda url, _read, _write, api_key: talked.append(url + api_key))
    assert chat.run(argparse.Namespace(model=str(tmp_path))) == 0
    assert talked == ["http://herek"] and Server.closed == 1

    def breaks(*_args: object, **_named: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(chat, "chat_loop", breaks)
    with pytest.raises(KeyboardInterrupt):
        chat.run(argparse.Namespace(model=str(tmp_path)))
    assert Server.closed == 2
