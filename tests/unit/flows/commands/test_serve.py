"""`glmflow serve` becomes the server, so that a signal reaches it directly."""

import argparse
import os
from pathlib import Path

import pytest

from flows.commands.serve import run


def test_the_process_is_replaced_by_the_server_of_the_model(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    class ReplacedError(Exception):
        pass

    def replace(path: str, command: list[str], environment: dict[str, str]) -> None:
        raise ReplacedError(path, command, environment)

    monkeypatch.setattr(os, "execve", replace)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(ReplacedError) as replaced:
        run(argparse.Namespace(model=str(tmp_path), host="127.0.0.1", port=0, without_key=True))
    path, command, environment = replaced.value.args
    assert path == command[0] and command[command.index("--model") + 1] == str(tmp_path)
    assert "--without-key" in command
    assert environment["HF_HUB_OFFLINE"] == "1"
