"""The previous champion comes back, or the command says that there is none."""

import argparse
from pathlib import Path

import pytest

from flows.commands import rollback
from infra.artifacts import ArtifactRef
from infra.errors import BadSpecError


def test_the_new_champion_is_named(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))

    class Registry:
        def rollback(self) -> ArtifactRef:
            return ArtifactRef(kind="model", digest="a" * 64, num_bytes=9)

    monkeypatch.setattr(rollback, "open_registry", lambda _settings: Registry())
    assert rollback.run(argparse.Namespace()) == 0
    assert "champion is model:aaaaaaaaaaaa" in capsys.readouterr().out


def test_a_home_without_a_registry_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    with pytest.raises(BadSpecError, match="registry: want a registered model, got none"):
        rollback.run(argparse.Namespace())
