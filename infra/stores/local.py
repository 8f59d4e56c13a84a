"""Content-addressed artifact store on a local directory."""

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from infra.artifacts import ArtifactRef, FileEntry, list_files, tree_digest
from infra.errors import ArtifactMissingError
from infra.stores.base import (
    ALL_FILES,
    LIST_SUFFIX,
    Ref,
    Store,
    dump_list,
    only_one,
    parse_list,
    place_of,
    require_directory,
)


class LocalStore(Store):
    """Artifacts below one directory. `is_durable`: what was put is there after a power cut too."""

    def __init__(self, root: Path, *, is_durable: bool = True) -> None:
        self.root = root
        self._sync = _fsync if is_durable else _leave_to_system

    @property
    def place(self) -> str:
        """Its directory."""
        return str(self.root)

    def path(self, ref: ArtifactRef) -> Path:
        """The artifact's directory, whether it is there or not."""
        return self.root / place_of(ref)

    def list_path(self, ref: ArtifactRef) -> Path:
        """The list of its files, whether it is there or not."""
        target = self.path(ref)
        return target.with_name(target.name + LIST_SUFFIX)

    def put(self, directory: Path, ref_type: type[Ref]) -> Ref:
        """Copy `directory` in under its digest; repeating it is free, and repairs what was lost."""
        require_directory(directory, ref_type)
        files = list_files(directory)
        ref = ref_type.of(files)
        self.add(directory, ref, files)
        return ref

    def add(self, directory: Path, ref: ArtifactRef, files: tuple[FileEntry, ...]) -> None:
        """Copy in what was hashed already. The copy is hashed again before it is published."""
        if self.missing_files(ref) == ():
            return
        target = self.path(ref)
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{ref.digest[:12]}-", dir=target.parent))
        try:
            shutil.copytree(directory, partial, dirs_exist_ok=True)
            if list_files(partial) != files:
                raise ArtifactMissingError(f"artifact {ref.short}: the copy in {self.root} differs; check the disk")
            self.publish(partial, ref, files)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def publish(self, partial: Path, ref: ArtifactRef, files: tuple[FileEntry, ...]) -> None:
        """Make a checked directory beside its place the artifact, unless another writer was first."""
        target = self.path(ref)
        for entry in files:
            self._sync(partial / entry.path)
        with _one_writer(target.parent):
            if self.missing_files(ref) == ():
                return
            if target.is_dir():  # files were lost since it was published, or its writer was killed
                shutil.rmtree(target)
            partial.rename(target)
            entries = target.with_name(f".{target.name}.list")
            entries.write_bytes(dump_list(files))
            self._sync(entries)
            entries.replace(self.list_path(ref))
            self._sync(target.parent)

    def missing_files(self, ref: ArtifactRef) -> tuple[str, ...]:
        """Relative paths that are absent or have another size; ALL_FILES when the whole artifact is absent."""
        target, entries = self.path(ref), self.list_path(ref)
        if not target.is_dir() or not entries.is_file():
            return ALL_FILES
        try:
            files = parse_list(entries.read_bytes(), ref)
        except ValueError:  # the list itself was cut or overwritten
            return (entries.name,)
        return tuple(f.path for f in files if not _has_size(target / f.path, f.num_bytes))

    def verify_bytes(self, ref: ArtifactRef) -> None:
        """Raise ArtifactMissingError unless every byte is what the digest promises (reads all files)."""
        self.verify(ref)
        if tree_digest(list_files(self.path(ref))) != ref.digest:
            raise ArtifactMissingError(
                f"artifact {ref.short} in {self.root} has changed bytes; delete {self.path(ref)} and re-run its stage"
            )

    def get(self, ref: ArtifactRef) -> Path:
        """The artifact's directory, for reading only."""
        self.verify(ref)
        return self.path(ref)

    def find(self, digest_prefix: str, kinds: tuple[str, ...]) -> ArtifactRef | None:
        """The one artifact of these kinds whose digest starts with the prefix, or None."""
        found = [
            (kind, path.with_name(path.name.removesuffix(LIST_SUFFIX)))
            for kind in kinds
            for path in (self.root / kind / digest_prefix[:2]).glob(f"{digest_prefix}*{LIST_SUFFIX}")
        ]
        if not only_one(digest_prefix, len(found)):
            return None
        kind, directory = found[0]
        num_bytes = sum(path.stat().st_size for path in directory.rglob("*") if path.is_file())
        return ArtifactRef(kind=kind, digest=directory.name, num_bytes=num_bytes)


@contextmanager
def _one_writer(directory: Path) -> Iterator[None]:
    """Others that publish in this directory wait until this block ends."""
    fd = os.open(directory, os.O_RDONLY)
    try:
        fcntl.flock(fd, fcntl.LOCK_EX)
        yield
    finally:
        os.close(fd)


def _has_size(path: Path, num_bytes: int) -> bool:
    return path.is_file() and path.stat().st_size == num_bytes


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)


def _leave_to_system(_path: Path) -> None:
    """The system writes it out in its own time."""
