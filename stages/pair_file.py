"""Preference pairs from a user's own file (.jsonl or .parquet).

A row has `prompt` (a text, or a list of turns with role and content), `chosen` and `rejected`; `id`, `task` and `lang`
may be there. Pairs that cannot teach anything are left out with a reason; a row that is not a pair is an error.
"""

import hashlib
from collections import Counter
from pathlib import Path
from typing import Any

from pydantic import ConfigDict, Field

from infra.errors import BadSpecError
from stages.records import Preference, Record, Turn, parse_record, read_rows

SUFFIXES = (".jsonl", ".parquet")
_ID_CHARS = 16


class PairRow(Record):
    """A row of the file, as the user wrote it."""

    model_config = ConfigDict(frozen=True, extra="ignore")

    prompt: str | tuple[Turn, ...] = Field(min_length=1)
    chosen: str = Field(min_length=1)
    rejected: str
    id: str = ""
    task: str = "file"
    lang: str = "und"


def file_sha256(path: Path) -> str:
    """Digest of the file's bytes. Raises BadSpecError if it cannot be read."""
    if path.suffix not in SUFFIXES:
        raise BadSpecError(f"{path}: want a file of pairs that ends in {' or '.join(SUFFIXES)}, got {path.suffix!r}")
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise BadSpecError(f"{path}: want a readable file of pairs, got {error}; give the right path") from error


def read_pair_file(path: Path) -> tuple[list[Preference], Counter[str]]:
    """(pairs, number dropped by reason). Raises BadSpecError that names file, row, field, what was wanted and got."""
    pairs: dict[tuple[str, str, str], Preference] = {}
    dropped: Counter[str] = Counter()
    for number, row in enumerate(read_rows(path), start=1):
        given = parse_record(row, PairRow, f"{path} row {number}")
        reason = _reason_to_drop(given)
        turns = (Turn(role="user", content=given.prompt),) if isinstance(given.prompt, str) else given.prompt
        key = (repr(turns), given.chosen.strip(), given.rejected.strip())
        if reason is None and key in pairs:
            reason = "repeated"
        if reason is not None:
            dropped[reason] += 1
            continue
        pairs[key] = _preference(given, turns)
    return list(pairs.values()), dropped


def _reason_to_drop(row: PairRow) -> str | None:
    if not row.rejected.strip():
        return "empty_rejected"
    if not row.chosen.strip():
        return "empty_chosen"
    if row.chosen.strip() == row.rejected.strip():
        return "chosen_equals_rejected"
    return None


def _preference(row: PairRow, turns: tuple[Turn, ...]) -> Preference:
    prompt: Any = [turn.model_dump() for turn in turns]
    digest = hashlib.sha256(repr((prompt, row.chosen, row.rejected)).encode()).hexdigest()
    return Preference(
        id=row.id or f"file-{digest[:_ID_CHARS]}",
        task=row.task,
        lang=row.lang,
        prompt=turns,
        chosen=row.chosen.strip(),
        rejected=row.rejected.strip(),
        origin="file",
    )
