"""`glmflow up` prints where to look, and says when everything ran already."""

import argparse
from pathlib import Path

import pytest

from flows.commands import up


@pytest.mark.parametrize(
    ("started", "said"), [(["prefect", "worker"], "started prefect, worker in "), ([], "everything was running; ")]
)
def test_it_prints_the_addresses(monkeypatch, capsys, tmp_path: Path, started: list[str], said: str):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("GLMFLOW_PREFECT_PORT", "4444")
    monkeypatch.setattr(up.Platform, "up", lambda _self, _prepare: started)
    assert up.run(argparse.Namespace()) == 0
    out = capsys.readouterr().out
    assert out.startswith(said) and "http://127.0.0.1:4444/deployments" in out and "http://127.0.0.1:5000" in out
