"""A user's own folder through the stage's door: refused input ends with exit code 2 and one sentence, no traceback."""

import json
from pathlib import Path

import pytest

from infra.artifacts import SourceManifest
from infra.settings import Settings
from infra.stores.local import LocalStore
from stages import load_stage
from stages.__main__ import EXIT_BAD_SPEC, EXIT_DONE, EXIT_FAILED, run_spec
from stages.sources import scan_paths

TEXT = "A document of a user that says something of its own, number {0}. " * 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "mine").mkdir()
    for i in range(30):
        (tmp_path / f"mine/{i}.txt").write_text(TEXT.format(i))
    return tmp_path / "mine"


def ingest(folder: Path, *, after_scan=lambda: None, config: dict | None = None) -> int:
    settings = Settings(home=folder.parent / "home")
    scan_paths([folder]).write(folder.parent / "manifest")
    ref = LocalStore(settings.store_dir).put(folder.parent / "manifest", SourceManifest)
    after_scan()
    spec = folder.parent / "spec.json"
    spec.write_text(json.dumps({"config": config or {}, "inputs": {"sources": ref.model_dump(mode="json")}}))
    return run_spec(load_stage("ingest"), spec, settings)


def test_a_folder_with_odd_files_is_read_and_they_are_named(folder: Path, capsys: pytest.CaptureFixture[str]):
    for name, data in {"empty.txt": b"", "binary.txt": b"\0\1", "latin.md": b"caf\xe9", "x.parquet": b"no"}.items():
        (folder / name).write_bytes(data)
    assert ingest(folder) == EXIT_DONE
    captured = capsys.readouterr()
    assert captured.out.count("warning: ") == 4
    assert captured.err == ""


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("rows.jsonl", b'{"text": "x"}\n{"txt": 1}\n', "rows.jsonl line 2: want an object with a 'text' field"),
        ("rows.jsonl", b"\n\nnot json", "rows.jsonl line 3: want JSON with a 'text' field, got 'not json'"),
        ("rows.json", b'["a"]', "rows.json item 1: want an object with a 'text' field"),
        ("rows.jsonl", b'{"text": "\\ud83d"}', "rows.jsonl line 1: want text that can be written as UTF-8"),
    ],
)
def test_a_broken_row_ends_with_code_2(folder: Path, capsys: pytest.CaptureFixture[str], name, data, message):
    (folder / name).write_bytes(data)
    assert ingest(folder) == EXIT_BAD_SPEC
    error = capsys.readouterr().err
    assert error.startswith(message)
    assert error.count("\n") == 1


def test_a_corpus_that_is_too_small_ends_with_code_2(folder: Path, capsys: pytest.CaptureFixture[str]):
    for i in range(11, 30):
        (folder / f"{i}.txt").unlink()
    assert ingest(folder) == EXIT_BAD_SPEC
    error = capsys.readouterr().err
    assert error.startswith("corpus: want at least 20 documents with 20000 bytes of text, got 11 with ")
    assert error.count("\n") == 1


def test_a_file_that_changed_after_the_scan_may_be_retried(folder: Path, capsys: pytest.CaptureFixture[str]):
    assert ingest(folder, after_scan=lambda: (folder / "3.txt").write_text("changed")) == EXIT_FAILED
    assert "3.txt: want the file that was scanned" in capsys.readouterr().err
