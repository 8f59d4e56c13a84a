"""What every artifact store does, and where an artifact lies in it.

`<kind>/<digest[:2]>/<digest>/` holds the files, `<digest>.files.json` beside it their paths, sizes and hashes. The list
is written last: an artifact without its list does not exist.
"""

from abc import ABC, abstractmethod
from pathlib import Path, PurePosixPath
from typing import TypeVar

from pydantic import TypeAdapter

from infra.artifacts import ArtifactRef, FileEntry, tree_digest
from infra.errors import ArtifactMissingError, BadSpecError

Ref = TypeVar("Ref", bound=ArtifactRef)
LIST_SUFFIX = ".files.json"
ALL_FILES = (".",)
_FILES = TypeAdapter(tuple[FileEntry, ...])


class Store(ABC):
    """Content-addressed artifacts. Safe for several writers: an artifact appears whole or not at all."""

    @property
    @abstractmethod
    def place(self) -> str:
        """Where it is, for people."""

    @abstractmethod
    def put(self, directory: Path, ref_type: type[Ref]) -> Ref:
        """Copy `directory` in under its digest; repeating it is free, and repairs what was lost."""

    @abstractmethod
    def get(self, ref: ArtifactRef) -> Path:
        """The artifact's directory, for reading only. Raises ArtifactMissingError when a file is not there."""

    @abstractmethod
    def missing_files(self, ref: ArtifactRef) -> tuple[str, ...]:
        """Relative paths that are absent or have another size; ALL_FILES when the whole artifact is absent."""

    @abstractmethod
    def verify_bytes(self, ref: ArtifactRef) -> None:
        """Raise ArtifactMissingError unless every byte is what the digest promises (reads all files)."""

    @abstractmethod
    def find(self, digest_prefix: str, kinds: tuple[str, ...]) -> ArtifactRef | None:
        """The one artifact of these kinds whose digest starts with the prefix, or None."""

    def verify(self, ref: ArtifactRef) -> None:
        """Raise ArtifactMissingError unless every file is there with its size."""
        missing = self.missing_files(ref)
        if missing:
            raise ArtifactMissingError(
                f"artifact {ref.short} is not complete in the store at {self.place} "
                f"(missing {', '.join(missing[:3])}); re-run the stage that made it, or set GLMFLOW_HOME or "
                f"GLMFLOW_STORE_URL to where it is"
            )


def place_of(ref: ArtifactRef) -> str:
    """The artifact's relative path; its list lies at the same path with LIST_SUFFIX."""
    return f"{ref.kind}/{ref.digest[:2]}/{ref.digest}"


def dump_list(files: tuple[FileEntry, ...]) -> bytes:
    """The bytes of a list of files: equal for equal artifacts."""
    return _FILES.dump_json(files)


def parse_list(data: bytes, ref: ArtifactRef) -> tuple[FileEntry, ...]:
    """The list back. Raises ValueError for one that was cut, leads outside, is no tree, or is another artifact's."""
    files = _FILES.validate_json(data)
    paths = {PurePosixPath(f.path) for f in files}
    if len(paths) < len(files) or any(not paths.isdisjoint(path.parents) for path in paths):
        raise ValueError(f"artifact {ref.short}: want files with names of their own, got one twice or below another")
    if tree_digest(files) != ref.digest:
        raise ValueError(f"artifact {ref.short}: want the list of its files, got that of {tree_digest(files)[:12]}")
    return files


def require_directory(directory: Path, ref_type: type[Ref]) -> None:
    """Raise ValueError for what cannot become an artifact."""
    if not directory.is_dir():
        raise ValueError(f"artifact {ref_type.__name__}: want a directory to store, got {directory}")


def only_one(digest_prefix: str, num_found: int) -> bool:
    """Whether there is exactly one artifact of a prefix; BadSpecError when there are more."""
    if num_found > 1:
        raise BadSpecError(f"digest {digest_prefix!r}: want one artifact, got {num_found}; give more characters")
    return num_found == 1
