"""What is particular to the local store; the laws of every store: tests/integration/test_store_contract.py."""

from pathlib import Path

import pytest

from infra.artifacts import Model, list_files
from infra.errors import ArtifactMissingError
from infra.stores.local import LocalStore
from tests.support.store_places import bytes_below, make_folder


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


def test_artifacts_lie_by_kind_and_digest_with_the_list_of_files_beside_them(store: LocalStore, tmp_path: Path):
    ref = store.put(make_folder(tmp_path / "a", {"f": b"1"}), Model)
    directory = f"model/{ref.digest[:2]}/{ref.digest}"
    assert set(bytes_below(store.root)) == {f"{directory}/f", f"{directory}.files.json"}
    assert store.get(ref) == store.root / directory


def test_what_is_put_is_a_copy_that_later_changes_do_not_reach(store: LocalStore, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1"})
    ref = store.put(folder, Model)
    (folder / "f").write_bytes(b"2")
    store.verify_bytes(ref)


def test_a_directory_that_changes_while_it_is_copied_is_refused_and_nothing_is_left(store: LocalStore, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1"})
    hashed = list_files(make_folder(tmp_path / "before", {"f": b"0"}))
    with pytest.raises(ArtifactMissingError, match=r"the copy in .* differs; check the disk"):
        store.add(folder, Model.of(hashed), hashed)
    assert bytes_below(store.root) == {}


def test_a_copy_that_was_cut_off_before_its_list_is_replaced(store: LocalStore, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1", "g": b"2"})
    ref = store.put(folder, Model)
    store.list_path(ref).unlink()
    (store.path(ref) / "g").unlink()
    assert store.put(folder, Model) == ref
    store.verify_bytes(ref)
