"""The manifest's digest is that of the documents: every change of one is another manifest."""

from pathlib import Path

import pytest

from flows.source_manifest import read_sources
from infra.errors import BadSpecError
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages import demonstration
from stages.sources import Manifest


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "documents"
    folder.mkdir()
    (folder / "a.txt").write_text("one")
    (folder / "b.md").write_text("two")
    return folder


def digest_of(path: Path, tmp_path: Path) -> str:
    settings = Settings(home=tmp_path / "home")
    return read_sources([path], settings, LocalStore(settings.store_dir)).digest


def test_equal_folders_are_equal_and_a_changed_byte_is_another_manifest(folder: Path, tmp_path: Path):
    before = digest_of(folder, tmp_path)
    assert digest_of(folder, tmp_path) == before
    (folder / "a.txt").write_text("One")
    assert digest_of(folder, tmp_path) != before


def test_a_folder_without_documents_is_refused(tmp_path: Path):
    with pytest.raises(BadSpecError, match=r"input .*: want"):
        digest_of(tmp_path, tmp_path)


def test_without_paths_the_demonstration_corpus_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    settings = Settings(home=tmp_path)
    monkeypatch.setattr(
        demonstration, "scan", lambda place: Manifest(sources=()) if place == settings.sources_dir else None
    )
    assert read_sources([], settings, LocalStore(settings.store_dir)).kind == "source_manifest"
