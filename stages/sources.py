"""Which files a corpus is made of: the source manifest, and what it lists for a user's folder or the demonstration.

`python -m stages.sources` fetches the demonstration corpus's sources (stages/demonstration.py) into the sources folder.

The manifest (`sources.json`) is ingest's only input. It names every file with its size and SHA-256, so one changed file
changes the manifest's digest and with it ingest's key; ingest checks the hash again when it reads.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from infra.artifacts import file_sha256
from infra.errors import BadSpecError
from infra.settings import read_settings

MANIFEST_FILE = "sources.json"
Reader = Literal["text", "jsonl", "json", "parquet", "prose", "python", "manual", "review_positive", "review_negative"]
USER_READERS: dict[str, Reader] = {
    ".txt": "text",
    ".md": "text",
    ".jsonl": "jsonl",
    ".json": "json",
    ".parquet": "parquet",
}
COMPRESSIONS = (".gz", ".zst")


class SourceFile(BaseModel):
    """One file to read."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: str = Field(description="path below the source's root, with forward slashes")
    sha256: str
    num_bytes: int
    reader: Reader


class Source(BaseModel):
    """Files that came together: a distribution, a package, a user's folder."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    name: str
    version: str
    kind: Literal["pip", "deb", "installed", "stdlib", "user"]
    license: str
    root: str = Field(description="folder on this machine; document ids do not depend on it")
    archive_sha256: str = Field(default="", description="of the downloaded archive, where there is one")
    files: tuple[SourceFile, ...]


class Manifest(BaseModel):
    """Every source of one corpus."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    sources: tuple[Source, ...]

    def write(self, directory: Path) -> None:
        """Write `sources.json`, one file a line."""
        directory.mkdir(parents=True, exist_ok=True)
        text = json.dumps(self.model_dump(mode="json"), indent=0, ensure_ascii=False)
        (directory / MANIFEST_FILE).write_text(text + "\n", encoding="utf-8")

    @classmethod
    def read(cls, directory: Path) -> "Manifest":
        """The manifest in an artifact directory."""
        return cls.model_validate_json((directory / MANIFEST_FILE).read_bytes())


def scan_paths(paths: Sequence[Path]) -> Manifest:
    """The readable files among `paths` (files and folders), in the order of their paths.

    Files with other endings are left out; a path that does not exist, and a folder without one readable file, are
    refused.
    """
    sources = []
    for path in paths:
        if not path.exists():
            raise BadSpecError(f"input {path}: want an existing file or folder, got none; check the path")
        files = [path] if path.is_file() else sorted(p for p in path.rglob("*") if p.is_file())
        root = path.parent if path.is_file() else path
        known = [(_with_utf8_name(file), reader) for file in files if (reader := user_reader(file))]
        if not known:
            raise BadSpecError(
                f"input {path}: want at least one file ending in {', '.join(USER_READERS)} (also "
                f"{' or '.join(COMPRESSIONS)} after it), got {len(files)} other files; convert or rename them"
            )
        sources.append(
            Source(
                name=path.resolve().name,
                version="",
                kind="user",
                license="user",
                root=str(root.resolve()),
                files=tuple(hashed(file, root, reader) for file, reader in known),
            )
        )
    return Manifest(sources=tuple(sources))


def _with_utf8_name(path: Path) -> Path:
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        raise BadSpecError(f"input {str(path)!a}: want a file name in UTF-8, got other bytes; rename it") from error
    return path


def user_reader(path: Path) -> Reader | None:
    """How to read a user's file, by its ending; None for a file that is not a document."""
    suffixes = [s.lower() for s in path.suffixes]
    if suffixes and suffixes[-1] in COMPRESSIONS:
        suffixes.pop()
    return USER_READERS.get(suffixes[-1]) if suffixes else None


def hashed(path: Path, root: Path, reader: Reader) -> SourceFile:
    """A file with its size and hash."""
    try:
        sha256, num_bytes = file_sha256(path), path.stat().st_size
    except OSError as error:
        raise BadSpecError(
            f"input {path}: want a file that can be read, got {error.strerror!r}; change its permissions or remove it"
        ) from error
    return SourceFile(path=path.relative_to(root).as_posix(), sha256=sha256, num_bytes=num_bytes, reader=reader)


def source_of(
    paths: Iterable[tuple[Path, Reader]],
    root: Path,
    *,
    name: str,
    version: str,
    kind: Literal["pip", "deb"],
    license_name: str,
    archive_sha256: str,
) -> Source:
    """A source made of unpacked files."""
    files = tuple(hashed(path, root, reader) for path, reader in paths)
    return Source(
        name=name,
        version=version,
        kind=kind,
        license=license_name,
        root=str(root),
        archive_sha256=archive_sha256,
        files=files,
    )


def main(argv: list[str] | None = None) -> int:
    """Fetch the demonstration sources; prints one line a source."""
    from stages.demonstration import fetch

    parser = argparse.ArgumentParser(prog="python -m stages.sources", description="fetch the demonstration sources")
    parser.add_argument("--dest", type=Path, default=read_settings().sources_dir, help="folder to keep them in")
    fetch(parser.parse_args(argv).dest)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
