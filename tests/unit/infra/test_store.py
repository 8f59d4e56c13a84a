"""Laws of the content-addressed store."""

from pathlib import Path

import pytest

from infra.artifacts import Model, Tokenizer
from infra.errors import ArtifactMissingError, BadSpecError
from infra.store import LocalStore


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def make_folder(root: Path, files: dict[str, bytes]) -> Path:
    for name, data in files.items():
        path = root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(data)
    return root


def test_what_is_put_is_got_back_byte_for_byte(store: LocalStore, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"x.bin": b"\0\1", "deep/er/y.txt": b"text", "empty": b""})
    ref = store.put(folder, Model)
    got = store.get(ref)
    assert {p.relative_to(got).as_posix(): p.read_bytes() for p in got.rglob("*") if p.is_file()} == {
        "x.bin": b"\0\1",
        "deep/er/y.txt": b"text",
        "empty": b"",
    }
    assert ref.num_bytes == 6


def test_equal_bytes_give_equal_references_wherever_they_lie(store: LocalStore, tmp_path: Path):
    first = store.put(make_folder(tmp_path / "a", {"f": b"1"}), Model)
    assert store.put(make_folder(tmp_path / "b", {"f": b"1"}), Model) == first
    assert store.put(make_folder(tmp_path / "c", {"g": b"1"}), Model) != first


def test_putting_again_repairs_a_lost_file(store: LocalStore, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1", "g": b"2"})
    ref = store.put(folder, Model)
    (store.get(ref) / "g").unlink()
    with pytest.raises(ArtifactMissingError, match=r"missing g\); re-run the stage that made it, or set GLMFLOW_HOME"):
        store.get(ref)
    assert store.put(folder, Model) == ref
    store.verify_bytes(ref)


def test_a_changed_size_is_seen_at_once_and_a_flipped_bit_when_bytes_are_read(store: LocalStore, tmp_path: Path):
    ref = store.put(make_folder(tmp_path / "a", {"f": b"12"}), Model)
    path = store.get(ref) / "f"
    path.write_bytes(b"13")
    store.verify(ref)
    with pytest.raises(ArtifactMissingError, match="has changed bytes"):
        store.verify_bytes(ref)
    path.write_bytes(b"1")
    with pytest.raises(ArtifactMissingError, match="missing f"):
        store.verify(ref)


def test_a_cut_list_of_files_makes_the_artifact_incomplete_and_putting_it_again_repairs_it(store, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1"})
    ref = store.put(folder, Model)
    entries = store.get(ref).with_name(f"{ref.digest}.files.json")
    entries.write_bytes(entries.read_bytes()[:20])
    with pytest.raises(ArtifactMissingError, match=r"missing .*files.json"):
        store.get(ref)
    assert store.put(folder, Model) == ref
    store.verify_bytes(ref)


def test_an_artifact_of_another_kind_is_not_found(store: LocalStore, tmp_path: Path):
    ref = store.put(make_folder(tmp_path / "a", {"f": b"1"}), Model)
    with pytest.raises(ArtifactMissingError, match=r"tokenizer:"):
        store.get(Tokenizer(digest=ref.digest, num_bytes=ref.num_bytes))


def test_a_digest_prefix_finds_one_artifact_or_says_that_it_is_ambiguous(store: LocalStore, tmp_path: Path):
    refs = [store.put(make_folder(tmp_path / str(i), {"f": str(i).encode()}), Model) for i in range(40)]
    assert store.find(refs[0].digest[:12], ("model",)) == ("model", refs[0].digest)
    assert store.find("0" * 12, ("model",)) is None
    starts = [ref.digest[:2] for ref in refs]
    shared = next((s for s in starts if starts.count(s) > 1), None)
    if shared:
        with pytest.raises(BadSpecError, match="give more characters"):
            store.find(shared, ("model",))


def test_only_a_directory_can_be_stored(store: LocalStore, tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="want a directory"):
        store.put(tmp_path / "file", Model)
