"""Local copies of artifacts that are kept elsewhere, below one directory and under a limit.

Beside a copy lies `<digest>.lock`. Whoever reads or writes a copy holds that file's shared flock until its process
ends (also across exec), and a copy is removed only by who gets the exclusive one: so nothing that a running process
uses is ever removed, and the kernel forgets the readers that were killed. The file's time is that of the last use.

Not covered: file systems without flock (some network mounts); a power cut after which a file has its size but not its
bytes (`verify_bytes` sees it, and fetches the copy again).
"""

import fcntl
import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from infra.artifacts import ArtifactRef
from infra.stores.base import LIST_SUFFIX
from infra.stores.local import LocalStore

LOCK_SUFFIX = ".lock"
_FETCH_SUFFIX = ".fetch"
_COPY_PREFIX = ".copy-"
_NAME_CHARS = 12  # how LocalStore begins the names of what is being written
_log = logging.getLogger(__name__)
_held: dict[Path, int] = {}  # of this process: the paths it was given are used long after the store object is gone


@dataclass(frozen=True)
class _Copy:
    lock_path: Path
    used_at: float
    num_bytes: int


class Cache:
    """A local store whose artifacts may be removed, except those that a running process uses."""

    def __init__(self, root: Path, max_bytes: int) -> None:
        self.local = LocalStore(root, is_durable=False)  # the original is elsewhere
        self.max_bytes = max_bytes

    def hold(self, ref: ArtifactRef) -> None:
        """Keep the artifact's copy, present or to come, until this process ends."""
        path = self._beside(ref, LOCK_SUFFIX)
        if path not in _held:
            fd = _lock(path, fcntl.LOCK_SH)
            os.set_inheritable(fd, True)  # a server that takes this process's place still reads the copy
            _held[path] = fd
        os.utime(_held[path])

    @contextmanager
    def fetching(self, ref: ArtifactRef) -> Iterator[Path]:
        """Where a held artifact is fetched to, with what was fetched before; others wait until this block ends."""
        fd = _lock(self._beside(ref, _FETCH_SUFFIX), fcntl.LOCK_EX)
        try:
            target = self.local.path(ref)
            partial = target.with_name(f".{ref.digest[:_NAME_CHARS]}-fetched")
            partial.mkdir(exist_ok=True)
            yield partial
        finally:
            os.close(fd)

    @contextmanager
    def copied(self, directory: Path) -> Iterator[Path]:
        """A copy to be hashed and published; what was not published is removed after this block or by `make_room`."""
        self.make_room(_tree_bytes(directory))
        self.local.root.mkdir(parents=True, exist_ok=True)
        copy = Path(tempfile.mkdtemp(prefix=_COPY_PREFIX, dir=self.local.root))
        fd = os.open(copy, os.O_RDONLY)
        try:
            fcntl.flock(fd, fcntl.LOCK_EX)
            shutil.copytree(directory, copy, dirs_exist_ok=True)
            yield copy
        finally:
            os.close(fd)
            shutil.rmtree(copy, ignore_errors=True)

    def forget(self, ref: ArtifactRef) -> None:
        """Believe a copy that has changed no more: the next reader fetches it again."""
        self.local.list_path(ref).unlink(missing_ok=True)

    def make_room(self, num_bytes: int) -> None:
        """Remove unused copies, the longest unused first, until `num_bytes` more are within the limit."""
        for path in self.local.root.glob(f"{_COPY_PREFIX}*"):
            _remove_abandoned(path)
        copies = sorted(self._copies(), key=lambda copy: copy.used_at)
        excess = sum(copy.num_bytes for copy in copies) + num_bytes - self.max_bytes
        for copy in copies:
            if excess <= 0:
                return
            if _remove(copy.lock_path):
                excess -= copy.num_bytes
        if excess > 0:
            _log.warning(
                "cache %s: want at most %d bytes, got %d more that are all in use; raise GLMFLOW_STORE_CACHE_BYTES",
                self.local.root, self.max_bytes, excess,
            )  # fmt: skip

    def _beside(self, ref: ArtifactRef, suffix: str) -> Path:
        target = self.local.path(ref)
        target.parent.mkdir(parents=True, exist_ok=True)
        return target.with_name(target.name + suffix)

    def _copies(self) -> Iterator[_Copy]:
        for path in self.local.root.glob(f"*/*/*{LOCK_SUFFIX}"):
            try:
                yield _Copy(path, path.stat().st_mtime, sum(map(_tree_bytes, _directories(path))))
            except FileNotFoundError:  # somebody else removed it
                continue


def _directories(lock_path: Path) -> list[Path]:
    """The copy and what is being written to become it."""
    digest = lock_path.name.removesuffix(LOCK_SUFFIX)
    partials = lock_path.parent.glob(f".{digest[:_NAME_CHARS]}-*")
    return [path for path in (lock_path.with_name(digest), *partials) if path.is_dir()]


def _tree_bytes(directory: Path) -> int:
    return sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())


def _remove(lock_path: Path) -> bool:
    """Remove a copy that nobody uses; False when somebody does."""
    try:
        fd = _lock(lock_path, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    try:
        digest = lock_path.name.removesuffix(LOCK_SUFFIX)
        lock_path.with_name(digest + LIST_SUFFIX).unlink(missing_ok=True)  # first: what is half removed is not there
        for directory in _directories(lock_path):
            shutil.rmtree(directory)
        lock_path.with_name(digest + _FETCH_SUFFIX).unlink(missing_ok=True)
        lock_path.unlink()
    finally:
        os.close(fd)
    return True


def _remove_abandoned(copy: Path) -> None:
    """Remove what a killed writer was copying; a running one has it locked."""
    try:
        fd = os.open(copy, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        shutil.rmtree(copy, ignore_errors=True)
    except BlockingIOError:
        return
    finally:
        os.close(fd)


def _lock(path: Path, how: int) -> int:
    """The open, locked file. One that was removed while we waited locks nothing, so it is opened again."""
    while True:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o666)
        try:
            fcntl.flock(fd, how)
            if _is_still(path, fd):
                return fd
        except OSError:
            os.close(fd)
            raise
        os.close(fd)


def _is_still(path: Path, fd: int) -> bool:
    try:
        return os.path.samestat(path.stat(), os.fstat(fd))
    except FileNotFoundError:
        return False
