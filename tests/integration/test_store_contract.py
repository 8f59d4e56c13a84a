"""Laws of every artifact store: a local folder, a bucket in memory, and (slow) a bucket of a real S3 server."""

import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from infra.artifacts import Model, Tokenizer, list_files
from infra.errors import ArtifactMissingError, BadSpecError
from infra.stores.base import LIST_SUFFIX, place_of
from infra.stores.local import LocalStore
from tests.support.store_places import LocalPlace, MemoryPlace, S3Place, bytes_below, make_folder

Place = LocalPlace | MemoryPlace | S3Place
FILES = {"x.bin": b"\0\1", "deep/er/y.txt": b"text", "empty": b""}


@pytest.fixture(params=["local", "memory", pytest.param("seaweedfs", marks=pytest.mark.slow)])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Place:
    if request.param == "seaweedfs":
        return request.getfixturevalue("s3_place")
    return LocalPlace(tmp_path / "place") if request.param == "local" else MemoryPlace(tmp_path / "place")


def test_what_is_put_is_got_back_byte_for_byte_on_another_machine(place: Place, tmp_path: Path):
    ref = place.open().put(make_folder(tmp_path / "a", FILES), Model)
    assert bytes_below(place.open().get(ref)) == FILES
    assert ref.num_bytes == 6


def test_names_that_need_escaping_come_back_as_they_were(place: Place, tmp_path: Path):
    files = dict.fromkeys(["a b/c+d.txt", "50%.txt", "a&b=c?.txt", "#1~(x)'!.txt", "文件/é.txt", ".hidden/.x"], b"1")
    ref = place.open().put(make_folder(tmp_path / "a", files), Model)
    assert bytes_below(place.open().get(ref)) == files


def test_an_artifact_without_files_is_an_artifact(place: Place, tmp_path: Path):
    ref = place.open().put(make_folder(tmp_path / "a", {}), Model)
    assert bytes_below(place.open().get(ref)) == {}


def test_equal_bytes_give_equal_references_in_every_store(place: Place, tmp_path: Path):
    first = place.open().put(make_folder(tmp_path / "a", {"f": b"1"}), Model)
    assert place.open().put(make_folder(tmp_path / "b", {"f": b"1"}), Model) == first
    assert LocalStore(tmp_path / "other").put(tmp_path / "a", Model) == first
    assert place.open().put(make_folder(tmp_path / "c", {"g": b"1"}), Model) != first


def test_putting_again_repairs_a_lost_file(place: Place, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1", "g": b"2"})
    ref = place.open().put(folder, Model)
    place.delete(f"{place_of(ref)}/g")
    with pytest.raises(ArtifactMissingError, match=r"missing g\); re-run the stage that made it, or set GLMFLOW_HOME"):
        place.open().get(ref)
    assert place.open().put(folder, Model) == ref
    place.open().verify_bytes(ref)


def test_a_changed_size_is_seen_at_once_and_a_flipped_bit_when_bytes_are_read(place: Place, tmp_path: Path):
    ref = place.open().put(make_folder(tmp_path / "a", {"f": b"12", "g": b"3"}), Model)
    key = f"{place_of(ref)}/f"
    place.write(key, b"13")
    place.open().verify(ref)
    with pytest.raises(ArtifactMissingError, match=r"changed bytes.*; delete .* and re-run"):
        place.open().verify_bytes(ref)
    place.write(key, b"1")
    with pytest.raises(ArtifactMissingError, match="missing f"):
        place.open().verify(ref)


def test_a_cut_list_of_files_makes_the_artifact_incomplete_and_putting_again_repairs_it(place: Place, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {"f": b"1"})
    ref = place.open().put(folder, Model)
    list_key = place_of(ref) + LIST_SUFFIX
    place.write(list_key, place.read(list_key)[:20])
    with pytest.raises(ArtifactMissingError, match=r"missing .*files.json"):
        place.open().get(ref)
    assert place.open().put(folder, Model) == ref
    place.open().verify_bytes(ref)


def test_the_list_of_another_artifact_is_not_believed(place: Place, tmp_path: Path):
    refs = [place.open().put(make_folder(tmp_path / name, {"f": name.encode()}), Model) for name in "ab"]
    place.write(place_of(refs[0]) + LIST_SUFFIX, place.read(place_of(refs[1]) + LIST_SUFFIX))
    with pytest.raises(ArtifactMissingError, match=r"missing .*files.json"):
        place.open().get(refs[0])


def test_an_artifact_without_its_list_does_not_exist(place: Place, tmp_path: Path):
    ref = place.open().put(make_folder(tmp_path / "a", {"f": b"1"}), Model)
    place.delete(place_of(ref) + LIST_SUFFIX)
    assert place.open().missing_files(ref) == (".",)
    assert place.open().find(ref.digest[:12], ("model",)) is None
    with pytest.raises(ArtifactMissingError, match=r"missing \."):
        place.open().get(ref)


@pytest.mark.parametrize("path", ["../../outside", "a/../../../outside", "{tmp}/outside", "a//b", "./a", ""])
def test_a_list_that_leads_outside_is_refused_and_nothing_is_written_there(place: Place, tmp_path: Path, path: str):
    """Its digest is right: whoever made the list also made the reference."""
    entry = list_files(make_folder(tmp_path / "a", {"f": b"1"}))[0]
    hostile = entry.model_copy(update={"path": path.format(tmp=tmp_path)})
    ref = Model.of((hostile,))
    place.write(place_of(ref) + LIST_SUFFIX, json.dumps([hostile.model_dump()]).encode())
    before = bytes_below(tmp_path)
    with pytest.raises(ArtifactMissingError, match=rf"artifact {ref.short} is not complete"):
        place.open().get(ref)
    assert {k: v for k, v in bytes_below(tmp_path).items() if not k.endswith((".lock", ".fetch"))} == before


@pytest.mark.parametrize("paths", [("a", "a"), ("a", "a/b"), ("a/b/c", "a/b")])
def test_a_list_with_a_file_twice_or_below_another_file_is_refused(
    place: Place, tmp_path: Path, paths: tuple[str, str]
):
    entry = list_files(make_folder(tmp_path / "a", {"f": b"1"}))[0]
    entries = tuple(entry.model_copy(update={"path": path}) for path in paths)
    ref = Model.of(entries)
    place.write(place_of(ref) + LIST_SUFFIX, json.dumps([each.model_dump() for each in entries]).encode())
    with pytest.raises(ArtifactMissingError, match=rf"artifact {ref.short} is not complete"):
        place.open().get(ref)


def test_an_artifact_of_another_kind_is_not_found(place: Place, tmp_path: Path):
    ref = place.open().put(make_folder(tmp_path / "a", {"f": b"1"}), Model)
    with pytest.raises(ArtifactMissingError, match=r"tokenizer:"):
        place.open().get(Tokenizer(digest=ref.digest, num_bytes=ref.num_bytes))


def test_a_digest_prefix_finds_one_artifact_or_says_that_it_is_ambiguous(place: Place, tmp_path: Path):
    store = place.open()
    refs = [store.put(make_folder(tmp_path / str(i), {"f": str(i).encode()}), Model) for i in range(40)]
    found = store.find(refs[0].digest[:12], ("tokenizer", "model"))
    assert (found.kind, found.digest, found.num_bytes) == ("model", refs[0].digest, refs[0].num_bytes)
    assert store.find("0" * 12, ("model",)) is None
    starts = [ref.digest[:2] for ref in refs]
    shared = next(s for s in starts if starts.count(s) > 1)
    with pytest.raises(BadSpecError, match="give more characters"):
        store.find(shared, ("model",))


def test_writers_of_equal_bytes_at_once_leave_one_whole_artifact(place: Place, tmp_path: Path):
    folder = make_folder(tmp_path / "a", {str(i): str(i).encode() * 1000 for i in range(20)})
    with ThreadPoolExecutor(6) as pool:
        refs = list(pool.map(lambda store: store.put(folder, Model), [place.open() for _ in range(6)]))
    assert len(set(refs)) == 1
    place.open().verify_bytes(refs[0])
    assert len(place.stored_keys()) == 21


def test_only_a_directory_can_be_stored(place: Place, tmp_path: Path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ValueError, match="want a directory"):
        place.open().put(tmp_path / "file", Model)
