"""Typed, immutable references to content-addressed artifacts.

A reference names bytes, never a place: two stages that produce equal bytes produce equal references. Every artifact is
a directory; its digest covers the relative path, the size and the SHA-256 of each of its files.
"""

import hashlib
import json
from pathlib import Path
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, NonNegativeInt, StringConstraints

Digest = Annotated[str, StringConstraints(pattern=r"^[0-9a-f]{64}$")]  # SHA-256, lower-case hex
SHORT_DIGEST_CHARS = 12


def _stays_inside(path: str) -> str:
    if "\0" in path or any(part in {"", ".", ".."} for part in path.split("/")):
        raise ValueError(f"file {path[:60]!r}: want a path that stays inside the artifact; do not use this artifact")
    return path


class FileEntry(BaseModel):
    """One file of an artifact."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    path: Annotated[str, AfterValidator(_stays_inside)] = Field(description="path inside it, with forward slashes")
    num_bytes: NonNegativeInt
    sha256: Digest


def file_sha256(path: Path) -> str:
    """SHA-256 of a file's bytes, lower-case hex."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def list_files(directory: Path) -> tuple[FileEntry, ...]:
    """All files below `directory`, hashed, in the order of their relative paths."""
    paths = sorted((p for p in directory.rglob("*") if p.is_file()), key=lambda p: p.relative_to(directory).as_posix())
    return tuple(
        FileEntry(path=p.relative_to(directory).as_posix(), num_bytes=p.stat().st_size, sha256=file_sha256(p))
        for p in paths
    )


def tree_digest(files: tuple[FileEntry, ...]) -> str:
    """The digest of a directory, from its file entries (sorted by path)."""
    canonical = json.dumps([[f.path, f.num_bytes, f.sha256] for f in files], separators=(",", ":"))
    return hashlib.sha256(canonical.encode()).hexdigest()


class ArtifactRef(BaseModel):
    """One artifact; subclasses fix `kind`, so a tokenizer cannot be passed where a corpus is asked for."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    kind: Annotated[str, StringConstraints(pattern=r"^[a-z][a-z0-9_]*$")]  # it is a folder's name
    digest: Digest
    num_bytes: NonNegativeInt = Field(description="size of all files together, in bytes")

    @property
    def short(self) -> str:
        """`kind:digest`, cut to what a person can read."""
        return f"{self.kind}:{self.digest[:SHORT_DIGEST_CHARS]}"

    @classmethod
    def of(cls, files: tuple[FileEntry, ...]) -> Self:
        """The reference of a directory with these files."""
        kind = cls.model_fields["kind"].default
        return cls(kind=kind, digest=tree_digest(files), num_bytes=sum(f.num_bytes for f in files))


class SourceManifest(ArtifactRef):
    """Which files ingest will read, each with its SHA-256, size and license."""

    kind: Literal["source_manifest"] = "source_manifest"


class RawCorpus(ArtifactRef):
    """Documents as they were read."""

    kind: Literal["raw_corpus"] = "raw_corpus"


class CleanCorpus(ArtifactRef):
    """Documents that passed every filter."""

    kind: Literal["clean_corpus"] = "clean_corpus"


class DedupedCorpus(ArtifactRef):
    """Documents without exact and near duplicates."""

    kind: Literal["deduped_corpus"] = "deduped_corpus"


class Tokenizer(ArtifactRef):
    """A Hugging Face fast tokenizer with its chat template."""

    kind: Literal["tokenizer"] = "tokenizer"


class Tokens(ArtifactRef):
    """Memory-mapped token shards with an index of documents."""

    kind: Literal["tokens"] = "tokens"


class Instructions(ArtifactRef):
    """Instructions with checkable answers, split into train and held-out by document."""

    kind: Literal["instructions"] = "instructions"


class Preferences(ArtifactRef):
    """Pairs of a chosen and a rejected answer."""

    kind: Literal["preferences"] = "preferences"


class Model(ArtifactRef):
    """A GLM as a Hugging Face model directory."""

    kind: Literal["model"] = "model"


class RewardModel(ArtifactRef):
    """A GLM backbone with a scalar head."""

    kind: Literal["reward_model"] = "reward_model"


class QuantizedModel(ArtifactRef):
    """A GLM with packed INT8 or INT4 weights."""

    kind: Literal["quantized_model"] = "quantized_model"


class Evaluation(ArtifactRef):
    """The metrics of one model."""

    kind: Literal["evaluation"] = "evaluation"


class Release(ArtifactRef):
    """Gate verdict, model card and weight digests."""

    kind: Literal["release"] = "release"


class Drift(ArtifactRef):
    """How far a corpus is from the one that the champion was made of."""

    kind: Literal["drift"] = "drift"


class Decision(ArtifactRef):
    """Whether a challenger beats the champion, and the model card that says so."""

    kind: Literal["decision"] = "decision"
