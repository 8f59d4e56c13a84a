"""A bundle holds the models that were named, each under the name it was asked by."""

import argparse
import json
import tarfile
from pathlib import Path

import pytest

from flows.commands.bundle import run
from infra.artifacts import Model
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from tests.unit.flows.test_bundle import write_wheel


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path / "home"))
    write_wheel(tmp_path / "wheels")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/config.json").write_text("{}")
    return tmp_path / "mine"


def arguments(tmp_path: Path, *models: str) -> argparse.Namespace:
    return argparse.Namespace(models=models, wheels=tmp_path / "wheels", image=[], output=tmp_path / "b.tar")


def test_models_are_named_by_directory_and_by_digest(model: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]):
    digest = LocalStore(tmp_path / "home/store").put(model, Model).digest
    assert run(arguments(tmp_path, str(model), f"model:{digest[:8]}")) == 0
    with tarfile.open(tmp_path / "b.tar") as archive:
        manifest = json.load(archive.extractfile("glmflow-bundle/manifest.json"))
        names = archive.getnames()
    assert manifest["models"] == sorted(["mine", digest[:8]])
    assert {f"glmflow-bundle/models/{name}/config.json" for name in manifest["models"]} <= set(names)
    assert "sh glmflow-bundle/install.sh" in capsys.readouterr().out


def test_a_name_given_twice_and_a_model_that_is_not_there_are_refused(model: Path, tmp_path: Path):
    with pytest.raises(BadSpecError, match="want different names"):
        run(arguments(tmp_path, str(model), str(model)))
    with pytest.raises(BadSpecError, match="want an artifact in"):
        run(arguments(tmp_path, "abcdef"))
    assert not (tmp_path / "b.tar").exists()
