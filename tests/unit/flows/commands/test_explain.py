"""`glmflow explain` prints the tree of what it was asked for."""

import argparse
from pathlib import Path

import pytest

from flows.commands.explain import run
from infra.artifacts import RawCorpus
from infra.errors import BadSpecError
from infra.lineage import Lineage
from infra.settings import Settings
from infra.stores.local import LocalStore
from tests.support.lifecycle_records import record


def test_an_artifact_is_explained_by_its_prefix(tmp_path: Path, monkeypatch, capsys):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path / "home"))
    settings = Settings()
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus/text").write_text("x")
    ref = LocalStore(settings.store_dir).put(tmp_path / "corpus", RawCorpus)
    outputs = {"corpus": ref.model_dump()}
    item = record("ingest", "x", {}).model_copy(update={"outputs": outputs, "inputs": {}, "config": {}})
    Lineage(settings.resolved_lineage_url()).commit(item, [])
    assert run(argparse.Namespace(ref=ref.digest[:8], all_files=False)) == 0
    assert capsys.readouterr().out.startswith(f"{ref.short} (1 B) <- ingest")
    with pytest.raises(BadSpecError, match="want an artifact in"):
        run(argparse.Namespace(ref="0123abcd", all_files=False))
