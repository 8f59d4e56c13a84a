"""Content-addressed artifact store on a local directory.

`<root>/<kind>/<digest[:2]>/<digest>/` holds the files, `<digest>.files.json` beside it their sizes and hashes.
"""

import os
import shutil
import tempfile
from pathlib import Path
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError

from infra.artifacts import ArtifactRef, FileEntry, list_files, tree_digest
from infra.errors import ArtifactMissingError, BadSpecError

Ref = TypeVar("Ref", bound=ArtifactRef)
_ENTRIES = TypeAdapter(tuple[FileEntry, ...])


class LocalStore:
    """Artifacts below one directory. Safe for several writers: a directory appears whole or not at all."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def _path(self, ref: ArtifactRef) -> Path:
        return self.root / ref.kind / ref.digest[:2] / ref.digest

    @staticmethod
    def _entries_path(target: Path) -> Path:
        return target.with_name(target.name + ".files.json")

    def put(self, directory: Path, ref_type: type[Ref]) -> Ref:
        """Copy `directory` in under its digest; repeating it is free. The copy is hashed before it is published."""
        if not directory.is_dir():
            raise ValueError(f"artifact {ref_type.__name__}: want a directory to store, got {directory}")
        files = list_files(directory)
        ref = ref_type.of(files)
        target = self._path(ref)
        if target.is_dir() and self.missing_files(ref) == ():
            return ref
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = Path(tempfile.mkdtemp(prefix=f".{ref.digest[:12]}-", dir=target.parent))
        try:
            shutil.copytree(directory, partial, dirs_exist_ok=True)
            if list_files(partial) != files:
                raise ArtifactMissingError(f"artifact {ref.short}: the copy in {self.root} differs; check the disk")
            self._publish(partial, target, files)
        finally:
            shutil.rmtree(partial, ignore_errors=True)
        return ref

    def _publish(self, partial: Path, target: Path, files: tuple[FileEntry, ...]) -> None:
        for entry in files:
            _fsync(partial / entry.path)
        entries = partial.with_name(partial.name + ".json")
        entries.write_bytes(_ENTRIES.dump_json(files))
        _fsync(entries)
        if target.is_dir():  # incomplete: files were lost since it was published
            shutil.rmtree(target)
        try:
            partial.rename(target)
        except OSError:
            if not target.is_dir():  # another writer of the same bytes was first
                raise
        entries.replace(self._entries_path(target))
        _fsync(target.parent)

    def missing_files(self, ref: ArtifactRef) -> tuple[str, ...]:
        """Relative paths that are absent or have another size; ('.',) when the whole artifact is absent."""
        target = self._path(ref)
        entries = self._entries_path(target)
        if not target.is_dir() or not entries.is_file():
            return (".",)
        try:
            files = _ENTRIES.validate_json(entries.read_bytes())
        except ValidationError:  # the list itself was cut or overwritten
            return (entries.name,)
        return tuple(f.path for f in files if not _has_size(target / f.path, f.num_bytes))

    def verify(self, ref: ArtifactRef) -> None:
        """Raise ArtifactMissingError unless every file is there with its size."""
        missing = self.missing_files(ref)
        if missing:
            raise ArtifactMissingError(
                f"artifact {ref.short} is not complete in the store at {self.root} (missing {', '.join(missing[:3])}); "
                f"re-run the stage that made it, or set GLMFLOW_HOME to where it is"
            )

    def verify_bytes(self, ref: ArtifactRef) -> None:
        """Raise ArtifactMissingError unless every byte is what the digest promises (reads all files)."""
        self.verify(ref)
        if tree_digest(list_files(self._path(ref))) != ref.digest:
            raise ArtifactMissingError(
                f"artifact {ref.short} in {self.root} has changed bytes; delete {self._path(ref)} and re-run its stage"
            )

    def get(self, ref: ArtifactRef) -> Path:
        """The artifact's directory, for reading only."""
        self.verify(ref)
        return self._path(ref)

    def find(self, digest_prefix: str, kinds: tuple[str, ...]) -> tuple[str, str] | None:
        """(kind, digest) of the one artifact of these kinds whose digest starts with the prefix, or None."""
        found = {
            (kind, path.name)
            for kind in kinds
            for path in (self.root / kind / digest_prefix[:2]).glob(f"{digest_prefix}*")
            if path.is_dir()
        }
        if len(found) > 1:
            raise BadSpecError(f"digest {digest_prefix!r}: want one artifact, got {len(found)}; give more characters")
        return found.pop() if found else None


def _has_size(path: Path, num_bytes: int) -> bool:
    return path.is_file() and path.stat().st_size == num_bytes


def _fsync(path: Path) -> None:
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
