"""`glmflow down` says what it ended."""

import argparse
from pathlib import Path

import pytest

from flows.commands import down


@pytest.mark.parametrize(
    ("ended", "said"), [(["worker", "mlflow"], "ended worker, mlflow\n"), ([], "nothing was running\n")]
)
def test_it_says_what_it_ended(monkeypatch, capsys, tmp_path: Path, ended: list[str], said: str):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    monkeypatch.setattr(down.Platform, "down", lambda _self: ended)
    assert down.run(argparse.Namespace()) == 0
    assert capsys.readouterr().out == said
