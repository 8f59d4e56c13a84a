"""What goes over the wire and what does not; the laws of every store: tests/integration/test_store_contract.py."""

from pathlib import Path

import pytest

from infra.artifacts import Model
from infra.errors import ArtifactMissingError, RetryableError
from infra.stores.base import place_of
from infra.stores.cache import Cache
from infra.stores.s3 import S3Store
from tests.support.store_places import MemoryPlace, bytes_below, make_folder

FILES = {"a": b"1", "b": b"23", "c/d": b"456"}


@pytest.fixture
def place(tmp_path: Path) -> MemoryPlace:
    return MemoryPlace(tmp_path)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return make_folder(tmp_path / "folder", FILES)


def test_the_list_of_files_is_written_after_every_file(place: MemoryPlace, folder: Path):
    ref = place.open().put(folder, Model)
    assert list(place.bucket.objects)[-1] == f"{place_of(ref)}.files.json"


def test_what_was_uploaded_before_a_kill_is_not_uploaded_again(place: MemoryPlace, folder: Path):
    ref = place.open().put(folder, Model)
    for key in (f"{place_of(ref)}.files.json", f"{place_of(ref)}/b"):
        place.delete(key)
    place.bucket.uploaded.clear()
    place.open().put(folder, Model)
    assert place.bucket.uploaded == [f"{place_of(ref)}/b"]


def test_putting_what_is_there_uploads_nothing(place: MemoryPlace, folder: Path):
    place.open().put(folder, Model)
    place.bucket.uploaded.clear()
    place.open().put(folder, Model)
    assert place.bucket.uploaded == []


def test_an_object_of_the_right_size_that_somebody_else_wrote_is_replaced(place: MemoryPlace, folder: Path):
    ref = place.open().put(folder, Model)
    place.write(f"{place_of(ref)}/b", b"xx")
    place.open().put(folder, Model)
    place.open().verify_bytes(ref)


def test_what_was_downloaded_before_a_kill_is_not_downloaded_again(place: MemoryPlace, folder: Path, tmp_path: Path):
    ref = place.open().put(folder, Model)
    cache = Cache(tmp_path / "mine", 2**40)
    with cache.fetching(ref) as partial:
        make_folder(partial, {"a": b"1", "b": b"2", "c/d.B7aF91": b"33"})  # one whole, one cut, one under another name
    assert bytes_below(S3Store(place.bucket, cache).get(ref)) == FILES
    assert place.bucket.downloaded == [f"{place_of(ref)}/{name}" for name in ("b", "c/d")]


def test_what_was_put_or_got_here_is_read_without_the_network(place: MemoryPlace, folder: Path):
    writer, reader = place.open(), place.open()
    ref = writer.put(folder, Model)
    for store in (writer, reader, reader):
        assert bytes_below(store.get(ref)) == FILES
    assert len(place.bucket.downloaded) == len(FILES)


def test_a_byte_that_arrives_wrong_is_fetched_once_more(place: MemoryPlace, folder: Path):
    ref = place.open().put(folder, Model)
    place.bucket.spoilt = {f"{place_of(ref)}/b", f"{place_of(ref)}/c/d"}
    assert bytes_below(place.open().get(ref)) == FILES


def test_a_byte_that_is_wrong_in_the_bucket_is_refused_and_never_published(place: MemoryPlace, folder: Path):
    ref = place.open().put(folder, Model)
    place.write(f"{place_of(ref)}/b", b"xx")
    reader = place.open()
    for _ in range(2):
        with pytest.raises(
            ArtifactMissingError,
            match=rf"artifact {ref.short}: want sha256 \w+ in s3://memory/.*/b, got changed bytes twice; delete that",
        ):
            reader.get(ref)
    assert place.bucket.downloaded.count(f"{place_of(ref)}/b") == 4


def test_a_copy_whose_bytes_changed_is_fetched_again_when_bytes_are_verified(place: MemoryPlace, folder: Path):
    store = place.open()
    ref = store.put(folder, Model)
    (store.get(ref) / "b").write_bytes(b"xx")
    store.verify_bytes(ref)
    assert bytes_below(store.get(ref)) == FILES


def test_a_copy_whose_bytes_changed_is_never_what_is_uploaded(place: MemoryPlace, folder: Path):
    store = place.open()
    ref = store.put(folder, Model)
    (store.get(ref) / "b").write_bytes(b"xx")
    for key in place.stored_keys():
        place.delete(key)
    store.put(folder, Model)
    assert bytes_below(place.open().get(ref)) == FILES


def test_a_bucket_that_forgets_what_it_took_is_an_error_worth_a_retry(place: MemoryPlace, folder: Path):
    place.bucket.upload = lambda files: None
    with pytest.raises(RetryableError, match="want all its files in s3://memory, got none of 'a'; run the same"):
        place.open().put(folder, Model)
    assert place.stored_keys() == set()
