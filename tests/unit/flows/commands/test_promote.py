"""A released model is made the champion by hand, named as people name it."""

import argparse
from pathlib import Path

import pytest

from flows.commands import promote
from infra.artifacts import ArtifactRef
from infra.errors import BadSpecError

MODEL = ArtifactRef(kind="model", digest="b" * 64, num_bytes=9)


class Registry:
    """Remembers what it was asked for."""

    def __init__(self) -> None:
        self.asked: list[tuple[str, bool]] = []

    def promote_digest(self, digest: str, *, ignores_gates: bool) -> ArtifactRef:
        self.asked.append((digest, ignores_gates))
        return MODEL


@pytest.mark.parametrize(("ref", "asked"), [("candidate", "c" * 64), ("model:bbbb", "bbbb"), ("bbbb", "bbbb")])
def test_an_alias_a_reference_and_a_prefix_name_a_model(
    ref: str, asked: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    registry = Registry()
    monkeypatch.setattr(promote, "open_registry", lambda _settings: registry)
    monkeypatch.setattr(promote, "resolve", lambda _alias, _settings: MODEL.model_copy(update={"digest": "c" * 64}))
    assert promote.run(argparse.Namespace(ref=ref, even_if_gates_failed=False)) == 0
    assert registry.asked == [(asked, False)]
    assert "champion is model:bbbbbbbbbbbb" in capsys.readouterr().out


def test_a_home_without_a_registry_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    with pytest.raises(BadSpecError, match="registry: want a registered model, got none"):
        promote.run(argparse.Namespace(ref="bbbb", even_if_gates_failed=False))
