"""The cache stays under its limit and never takes away what a running process reads."""

import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from infra.artifacts import Model, list_files
from infra.stores.cache import Cache
from tests.support.store_places import bytes_below, make_folder

ROOT = Path(__file__).parents[4]
KILOBYTE = 1000
PUT = """
import sys
from pathlib import Path
from infra.artifacts import Model, list_files
from infra.stores.cache import Cache
cache = Cache(Path(sys.argv[1]), 2**40)
for folder in map(Path, sys.argv[2:]):
    with cache.copied(folder) as copy:
        files = list_files(copy)
        cache.hold(Model.of(files))
        cache.local.publish(copy, Model.of(files), files)
"""
WAIT = "print('ready', flush=True); sys.stdin.read()"
EXEC = f"import os; os.execv(sys.executable, [sys.executable, '-c', '''import sys; {WAIT}'''])"


@pytest.fixture
def folders(tmp_path: Path) -> list[Path]:
    return [make_folder(tmp_path / name, {"f": name.encode() * KILOBYTE}) for name in "abc"]


def ref_of(folder: Path) -> Model:
    return Model.of(list_files(folder))


def take_in(cache: Cache, folder: Path) -> Model:
    with cache.copied(folder) as copy:
        ref = ref_of(copy)
        cache.hold(ref)
        cache.local.publish(copy, ref, list_files(copy))
    return ref


def put_and_end(root: Path, *folders: Path) -> None:
    subprocess.run([sys.executable, "-c", PUT, str(root), *map(str, folders)], check=True, cwd=ROOT)


@contextmanager
def running(root: Path, folder: Path, then: str = WAIT) -> Iterator[subprocess.Popen]:
    """A process that holds the copy of a folder until the block ends."""
    command = [sys.executable, "-c", PUT + then, str(root), str(folder)]
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout.readline() == "ready\n"
        yield process
    finally:
        process.kill()
        process.wait()


def test_what_was_unused_longest_goes_first_and_only_as_much_as_needed(tmp_path: Path, folders: list[Path]):
    put_and_end(tmp_path / "cache", *folders)
    cache = Cache(tmp_path / "cache", 3 * KILOBYTE)
    for age_s, folder in ((300, folders[1]), (200, folders[0]), (100, folders[2])):
        lock = cache.local.path(ref_of(folder)).with_name(f"{ref_of(folder).digest}.lock")
        os.utime(lock, (time.time() - age_s,) * 2)
    cache.make_room(KILOBYTE)
    kept = [folder.name for folder in folders if cache.local.missing_files(ref_of(folder)) == ()]
    assert kept == ["a", "c"]
    cache.make_room(3 * KILOBYTE)
    assert bytes_below(cache.local.root) == {}


@pytest.mark.parametrize("then", [WAIT, EXEC], ids=["itself", "what took its place"])
def test_what_a_running_process_uses_stays_until_it_was_killed(tmp_path: Path, folders: list[Path], then: str):
    put_and_end(tmp_path / "cache", folders[1])
    cache = Cache(tmp_path / "cache", 0)
    with running(tmp_path / "cache", folders[0], then):
        cache.make_room(0)
        assert cache.local.missing_files(ref_of(folders[0])) == ()
        assert cache.local.missing_files(ref_of(folders[1])) == (".",)
    cache.make_room(0)
    assert bytes_below(cache.local.root) == {}


def test_a_cache_that_is_all_in_use_goes_over_its_limit_and_says_so(
    tmp_path: Path, folders: list[Path], caplog: pytest.LogCaptureFixture
):
    cache = Cache(tmp_path / "cache", KILOBYTE)
    with caplog.at_level(logging.WARNING):
        for folder in folders[:2]:
            take_in(cache, folder)
    assert [cache.local.missing_files(ref_of(folder)) for folder in folders[:2]] == [(), ()]
    assert "want at most 1000 bytes, got 1000 more that are all in use; raise GLMFLOW_STORE_CACHE_BYTES" in caplog.text


def test_what_a_killed_process_had_begun_to_fetch_counts_and_goes_too(tmp_path: Path, folders: list[Path]):
    code = PUT + "with cache.fetching(Model.of(files)) as partial: (partial / 'x').write_bytes(bytes(5000))"
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "cache"), str(folders[0])], check=True, cwd=ROOT)
    cache = Cache(tmp_path / "cache", 3 * KILOBYTE)
    cache.make_room(0)
    assert bytes_below(cache.local.root) == {}


def test_a_forgotten_copy_is_there_no_more(tmp_path: Path, folders: list[Path]):
    cache = Cache(tmp_path / "cache", 2**40)
    ref = take_in(cache, folders[0])
    assert cache.local.missing_files(ref) == ()
    cache.forget(ref)
    assert cache.local.missing_files(ref) == (".",)


def test_what_a_killed_process_was_copying_is_removed_and_what_a_running_one_copies_stays(
    tmp_path: Path, folders: list[Path]
):
    cache = Cache(tmp_path / "cache", 2**40)
    killed = "with cache.copied(folder): import os; os.kill(os.getpid(), 9)"
    subprocess.run(
        [sys.executable, "-c", PUT + killed, str(tmp_path / "cache"), str(folders[0])], check=False, cwd=ROOT
    )
    assert len(list(cache.local.root.glob(".copy-*"))) == 1
    with cache.copied(folders[1]) as copy:
        cache.make_room(0)
        assert list(cache.local.root.glob(".copy-*")) == [copy]
        assert bytes_below(copy) == bytes_below(folders[1])
