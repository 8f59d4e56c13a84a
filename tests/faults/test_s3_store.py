"""A store on a real S3 server, with its writers, readers and the server itself killed in the middle of their work."""

import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest

from infra.artifacts import Model
from infra.errors import BadSpecError
from infra.settings import Settings
from infra.stores.base import LIST_SUFFIX, place_of
from infra.stores.opening import open_store
from tests.support.s3_server import BUCKET, S3Server
from tests.support.store_places import S3Place, bytes_below

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
PUT = """
import sys
from pathlib import Path
from infra.artifacts import Model
from infra.settings import read_settings
from infra.stores.opening import open_store
print(open_store(read_settings()).put(Path(sys.argv[1]), Model).model_dump_json())
"""
GET = """
import sys
from infra.artifacts import Model
from infra.settings import read_settings
from infra.stores.opening import open_store
print(open_store(read_settings()).get(Model.model_validate_json(sys.argv[1])))
"""
NUM_FILES, FILE_BYTES = 12, 20 * 2**20  # each one goes up in two parts
WAIT_S = 60


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root, random = tmp_path_factory.mktemp("large"), np.random.default_rng(0)
    for i in range(NUM_FILES):
        (root / f"shard-{i:02}.bin").write_bytes(random.bytes(FILE_BYTES))
    return root


@contextmanager
def process(place: S3Place, home: Path, code: str, argument: str) -> Iterator[subprocess.Popen]:
    """A process with this home that does one thing with the store; killed at the end of the block."""
    environment = {**os.environ, **place.environment, "GLMFLOW_HOME": str(home)}
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    child = subprocess.Popen([sys.executable, "-c", code, argument], cwd=ROOT, text=True, env=environment, **pipes)
    try:
        yield child
    finally:
        child.kill()
        child.communicate()


def wait_until(is_so: Callable[[], bool]) -> None:
    until = time.monotonic() + WAIT_S
    while not is_so():
        assert time.monotonic() < until
        time.sleep(0.02)


def written_at(place: S3Place) -> dict[str, object]:
    found = place.server.client().list_objects_v2(Bucket=BUCKET, Prefix=f"{place.prefix}/")
    return {item["Key"]: item["LastModified"] for item in found.get("Contents", ())}


def test_a_writer_that_was_killed_is_continued_and_leaves_no_unfinished_upload(
    s3_place: S3Place, folder: Path, tmp_path: Path
):
    with process(s3_place, tmp_path / "home", PUT, str(folder)):
        wait_until(lambda: len(s3_place.stored_keys()) >= 2)
    uploaded = written_at(s3_place)
    assert 2 <= len(uploaded) < NUM_FILES and not any(key.endswith(LIST_SUFFIX) for key in uploaded)
    assert s3_place.unfinished_uploads()
    ref = s3_place.open().put(folder, Model)
    assert uploaded.items() <= written_at(s3_place).items(), "what was there is uploaded again"
    assert s3_place.unfinished_uploads() == []
    s3_place.open().verify_bytes(ref)


def test_a_reader_that_was_killed_is_continued_with_what_it_had(s3_place: S3Place, folder: Path, tmp_path: Path):
    ref = s3_place.open().put(folder, Model)
    home = tmp_path / "reader"

    def complete() -> dict[str, int]:
        paths = home.glob(f"store-cache/{place_of(ref)[:8]}/.*-fetched/shard-??.bin")
        return {path.name: path.stat().st_ino for path in paths}

    with process(s3_place, home, GET, ref.model_dump_json()):
        wait_until(lambda: len(complete()) >= 2)
    kept = complete()
    assert 2 <= len(kept) < NUM_FILES
    got = open_store(s3_place.settings().model_copy(update={"home": home})).get(ref)
    assert kept.items() <= {path.name: path.stat().st_ino for path in got.iterdir()}.items()
    assert bytes_below(got) == bytes_below(folder)
    assert not list(home.glob("store-cache/*/*/.*-fetched"))


@pytest.mark.parametrize("code", [PUT, GET], ids=["put", "get"])
def test_a_server_that_is_killed_and_comes_back_costs_a_retry_at_most(
    s3_place: S3Place, s3_server: S3Server, folder: Path, tmp_path: Path, code: str
):
    ref = s3_place.open().put(folder, Model) if code == GET else None
    home = tmp_path / "home"
    with process(s3_place, home, code, ref.model_dump_json() if ref else str(folder)) as child:
        wait_until(lambda: bool(list(home.glob("store-cache/*/*/.*-fetched/*")) if ref else s3_place.stored_keys()))
        s3_server.kill()
        s3_server.start()
        _, said = child.communicate(timeout=WAIT_S * 3)
    assert child.returncode == 0 or "infra.errors.RetryableError: store s3://" in said
    same_machine = open_store(s3_place.settings().model_copy(update={"home": home}))
    ref = same_machine.put(folder, Model)
    for store in (same_machine, s3_place.open()):
        store.verify_bytes(ref)
        assert bytes_below(store.get(ref)) == bytes_below(folder)
    assert s3_place.unfinished_uploads() == []


def test_writers_and_readers_at_once_in_processes_of_their_own_agree(s3_place: S3Place, folder: Path, tmp_path: Path):
    def run(home: str, code: str, argument: str) -> str:
        with process(s3_place, tmp_path / home, code, argument) as child:
            out, said = child.communicate(timeout=WAIT_S * 3)
            assert child.returncode == 0, said
            return out

    with ThreadPoolExecutor(3) as pool:
        written = list(pool.map(lambda home: run(home, PUT, str(folder)), ["a", "b", "a"]))
    assert len(set(written)) == 1
    assert len(s3_place.stored_keys()) == NUM_FILES + 1 and s3_place.unfinished_uploads() == []
    with ThreadPoolExecutor(2) as pool:
        read = list(pool.map(lambda _: run("c", GET, written[0]), range(2)))
    assert len(set(read)) == 1 and bytes_below(Path(read[0].strip())) == bytes_below(folder)


def test_what_a_person_has_to_set_is_named(s3_place: S3Place, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    (tmp_path / "f").mkdir()
    (tmp_path / "f/f").write_bytes(b"1")
    elsewhere = Settings(home=tmp_path / "h", store_url="s3://nowhere/p", s3_endpoint_url=s3_place.server.url)
    with pytest.raises(BadSpecError, match="want a bucket that exists, got 'nowhere'; set GLMFLOW_STORE_URL"):
        open_store(elsewhere).put(tmp_path / "f", Model)
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "wrong")
    with pytest.raises(BadSpecError, match="SignatureDoesNotMatch; set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY"):
        s3_place.open().put(tmp_path / "f", Model)
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "nobody")
    with pytest.raises(BadSpecError, match="InvalidAccessKeyId; set AWS_ACCESS_KEY_ID"):
        s3_place.open().find("0" * 8, ("model",))
