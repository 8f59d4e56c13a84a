"""What is checked before a run of the platform starts anything expensive. Every problem is said, in one error."""

import shutil
from collections.abc import Iterable, Sequence
from pathlib import Path

from infra.artifacts import ArtifactRef
from infra.errors import ArtifactMissingError, BadSpecError
from infra.settings import Settings
from infra.stores.base import Store

MIN_FREE_BYTES = 1 << 30
COPIES = 6  # of a lifecycle's documents: read, cleaned, deduplicated, packed, and what is being written


def check(problems: Iterable[str | None]) -> None:
    """Raise BadSpecError that says every problem."""
    found = [problem for problem in problems if problem]
    if found:
        raise BadSpecError("; ".join(found))


def disk_problem(settings: Settings, num_written_bytes: int = 0) -> str | None:
    """Too little room for so many bytes to be written."""
    place = next(path for path in (settings.root, *settings.root.parents) if path.exists())
    wanted_bytes, free_bytes = max(MIN_FREE_BYTES, num_written_bytes), shutil.disk_usage(place).free
    if free_bytes >= wanted_bytes:
        return None
    return (
        f"disk of {settings.root}: want {wanted_bytes / 2**30:.1f} GiB free, got {free_bytes / 2**30:.1f}; "
        f"free some, or set GLMFLOW_HOME to a larger one"
    )


def missing_problems(refs: Iterable[ArtifactRef], store: Store) -> list[str]:
    """References whose bytes are not in the store, or not all of them."""
    problems = []
    for ref in refs:
        try:
            store.verify(ref)
        except ArtifactMissingError as error:
            problems.append(str(error))
    return problems


def source_problem(paths: Sequence[Path], settings: Settings) -> str | None:
    """Documents that are not there."""
    absent = [str(path) for path in paths if not path.exists()]
    if absent:
        return f"documents.source_folder: want a folder or a file on the platform's machine, got {absent[0]!r}"
    if not paths and not any(settings.sources_dir.glob("*")):
        return (
            f"documents.source_folder: want a folder, or the demonstration corpus in {settings.sources_dir}, got "
            f"neither; name a folder, or run `make setup`"
        )
    return None


def num_bytes_in(paths: Sequence[Path]) -> int:
    """Size of all files of these folders and files."""
    files = [file for path in paths for file in ([path] if path.is_file() else path.rglob("*")) if file.is_file()]
    return sum(file.stat().st_size for file in files)
