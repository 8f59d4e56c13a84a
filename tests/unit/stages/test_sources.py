"""Laws of the source manifest."""

import os
import shutil
from pathlib import Path

import pytest

from infra.artifacts import file_sha256
from infra.errors import BadSpecError
from stages import demonstration
from stages.sources import Manifest, main, scan_paths, user_reader


def folder_of(root: Path, names: tuple[str, ...]) -> Path:
    for name in names:
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(f"text of {name}")
    return root


@pytest.mark.parametrize(
    ("name", "reader"),
    [("a.txt", "text"), ("A.MD", "text"), ("a.jsonl", "jsonl"), ("a.json.gz", "json"), ("a.parquet.ZST", "parquet"),
     ("a.b.txt", "text"), ("a.gz", None), ("a.pdf", None), ("txt", None), (".txt", None), ("a.txt.bz2", None)],
)  # fmt: skip
def test_the_ending_says_how_a_file_is_read(name, reader):
    assert user_reader(Path(name)) == reader


def test_every_readable_file_is_listed_once_in_order_with_its_hash(tmp_path: Path):
    folder = folder_of(tmp_path / "mine", ("b.txt", "a.md", "sub/c.jsonl", "picture.png"))
    (source,) = scan_paths([folder]).sources
    assert [f.path for f in source.files] == ["a.md", "b.txt", "sub/c.jsonl"]
    assert all(f.sha256 == file_sha256(folder / f.path) for f in source.files)
    assert (source.name, source.kind, source.root) == ("mine", "user", str(folder))


def test_a_single_file_is_a_source_too(tmp_path: Path):
    folder = folder_of(tmp_path, ("a.txt", "b.txt"))
    (source,) = scan_paths([folder / "b.txt"]).sources
    assert [f.path for f in source.files] == ["b.txt"]


def test_a_manifest_comes_back_as_it_was_written_with_equal_bytes(tmp_path: Path):
    manifest = scan_paths([folder_of(tmp_path / "in", ("a.txt", "文.txt"))])
    for name in ("one", "two"):
        manifest.write(tmp_path / name)
        assert Manifest.read(tmp_path / name) == manifest
    assert (tmp_path / "one/sources.json").read_bytes() == (tmp_path / "two/sources.json").read_bytes()


def test_moving_the_folder_changes_nothing_but_the_root(tmp_path: Path):
    before = scan_paths([folder_of(tmp_path / "x/mine", ("a.txt",))]).sources[0]
    shutil.move(tmp_path / "x", tmp_path / "y")
    after = scan_paths([tmp_path / "y/mine"]).sources[0]
    assert after == before.model_copy(update={"root": str(tmp_path / "y/mine")})


def test_a_path_that_does_not_exist_is_refused(tmp_path: Path):
    with pytest.raises(BadSpecError, match=r"gone: want an existing file or folder, got none; check the path"):
        scan_paths([tmp_path / "gone"])


@pytest.mark.parametrize(("names", "count"), [((), 0), (("a.png", "b"), 2)])
def test_a_folder_without_a_readable_file_is_refused(tmp_path: Path, names, count):
    with pytest.raises(BadSpecError, match=rf"want at least one file ending in .txt, .md.*, got {count} other files"):
        scan_paths([folder_of(tmp_path, names)])


def test_a_file_name_that_is_not_utf8_is_refused(tmp_path: Path):
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9.txt")).write_text("x")
    with pytest.raises(BadSpecError, match=r"want a file name in UTF-8, got other bytes; rename it"):
        scan_paths([tmp_path])


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    def deny(path: Path) -> str:
        raise PermissionError(13, "Permission denied", str(path))

    monkeypatch.setattr("stages.sources.file_sha256", deny)
    with pytest.raises(BadSpecError, match=r"a.txt: want a file that can be read, got 'Permission denied'; change its"):
        scan_paths([folder_of(tmp_path, ("a.txt",))])


def test_the_command_fetches_into_the_folder_it_is_given(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    folders: list[Path] = []
    monkeypatch.setattr(demonstration, "fetch", folders.append)
    assert main(["--dest", str(tmp_path)]) == 0
    assert folders == [tmp_path]
