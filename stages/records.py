"""The records that stages hand to each other: documents in parquet, instructions and preferences in JSON lines."""

import hashlib
import json
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from infra.errors import BadSpecError

if TYPE_CHECKING:
    from models.tokenizer import Message

DOCUMENTS_PER_SHARD = 20_000
_COLUMNS = ("id", "text", "source", "license", "lang", "domain", "meta")
_HASH_CHARS = 13  # 52 bits, exact in a float


@dataclass(frozen=True)
class Document:
    """One document. `meta` holds what instruction building can check: title, symbol, name, summary, label."""

    id: str
    text: str
    source: str
    license: str
    lang: str  # ISO 639-1, `code` for programs, `und` where it is not known
    domain: str  # api, doc, manual, code, review, user
    meta: dict[str, str] = field(default_factory=dict)


def is_held_out(document_id: str, ratio: float) -> bool:
    """Whether this document is set aside for evaluation: depends on its id alone, so that every stage agrees."""
    digest = hashlib.sha256(b"held out:" + document_id.encode()).hexdigest()
    return int(digest[:_HASH_CHARS], 16) / float(16**_HASH_CHARS) < ratio


def frozen_ids(documents: Iterable[Document], frozen_dir: Path, ratio: float) -> frozenset[str]:
    """Documents that are held out of the frozen corpus, found by their text: a file that moved has other ids."""
    frozen = {_text_digest(d) for d in read_corpus(frozen_dir) if is_held_out(d.id, ratio)}
    return frozenset(d.id for d in documents if _text_digest(d) in frozen)


def _text_digest(document: Document) -> bytes:
    return hashlib.sha256(document.text.encode()).digest()


class CorpusWriter:
    """Writes documents into parquet shards whose bytes depend on the documents only."""

    def __init__(self, directory: Path, documents_per_shard: int = DOCUMENTS_PER_SHARD) -> None:
        directory.mkdir(parents=True)
        self._directory = directory
        self._documents_per_shard = documents_per_shard
        self._waiting: list[Document] = []
        self._num_shards = 0

    def write(self, document: Document) -> None:
        """Append one document."""
        self._waiting.append(document)
        if len(self._waiting) == self._documents_per_shard:
            self._flush()

    def close(self) -> None:
        """Write what is waiting; a corpus has at least one shard."""
        if self._waiting or self._num_shards == 0:
            self._flush()

    def _flush(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        rows = [
            {
                **{c: getattr(d, c) for c in _COLUMNS[:-1]},
                "meta": json.dumps(d.meta, sort_keys=True, ensure_ascii=False),
            }
            for d in self._waiting
        ]
        table = pa.Table.from_pylist(rows, schema=pa.schema([(column, pa.string()) for column in _COLUMNS]))
        path = self._directory / f"part-{self._num_shards:05}.parquet"
        pq.write_table(table, path, compression="zstd", compression_level=3, store_schema=False)
        self._waiting = []
        self._num_shards += 1


def read_corpus(directory: Path) -> Iterator[Document]:
    """The documents of a corpus, in the order in which they were written."""
    import pyarrow.parquet as pq

    for path in sorted(directory.glob("part-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches():
            for row in batch.to_pylist():
                yield Document(**{**row, "meta": json.loads(row["meta"])})


def write_report(directory: Path, report: dict[str, Any]) -> None:
    """Every count and reason of a data stage, beside its corpus."""
    text = json.dumps(report, indent=1, ensure_ascii=False)
    (directory / "report.json").write_text(text + "\n", encoding="utf-8")


class Record(BaseModel):
    """Base of the JSON-lines records."""

    model_config = ConfigDict(frozen=True, extra="forbid")


class Turn(Record):
    """One message of a conversation."""

    role: Literal["system", "user", "assistant", "observation"]
    content: str


class Check(Record):
    """How an answer is checked (stages/answers.py)."""

    kind: Literal["exact", "choice", "number"]
    answer: str = Field(min_length=1)

    @model_validator(mode="after")
    def _number_is_an_integer(self) -> "Check":
        if self.kind == "number" and not re.fullmatch(r"-?\d+", self.answer):
            raise ValueError(f"want an integer where the kind is 'number', got {self.answer[:60]!r}")
        return self


class Instruction(Record):
    """A conversation whose last turn is the right answer, and how to check another answer to it."""

    id: str
    task: str
    lang: str
    phase: int = Field(ge=0, description="curriculum phase: 0 first")
    messages: tuple[Turn, ...] = Field(min_length=2)
    doc_id: str = Field(description="document it was made from; empty for what needs none")
    check: Check

    @property
    def prompt(self) -> list["Message"]:
        """The turns before the answer."""
        return [{"role": turn.role, "content": turn.content} for turn in self.messages[:-1]]

    @property
    def conversation(self) -> list["Message"]:
        """All turns."""
        return [{"role": turn.role, "content": turn.content} for turn in self.messages]


class Preference(Record):
    """A better and a worse answer to one prompt."""

    id: str
    task: str
    lang: str
    prompt: tuple[Turn, ...] = Field(min_length=1)
    chosen: str = Field(min_length=1)
    rejected: str = Field(min_length=1)
    origin: Literal["sampled", "file"]

    @property
    def messages(self) -> list["Message"]:
        """The prompt's turns."""
        return [{"role": turn.role, "content": turn.content} for turn in self.prompt]


R = TypeVar("R", bound=Record)


def write_records(path: Path, records: Iterable[Record]) -> int:
    """Write JSON lines; returns how many."""
    count = 0
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(record.model_dump(mode="json"), ensure_ascii=False) + "\n")
            count += 1
    return count


def read_records(path: Path, record_type: type[R]) -> list[R]:
    """Read a .jsonl or .parquet file of records. A bad row is a BadSpecError that names it."""
    return [parse_record(row, record_type, f"{path.name} row {i}") for i, row in enumerate(read_rows(path), start=1)]


def read_rows(path: Path) -> Sequence[dict[str, Any]]:
    """The rows of a .jsonl or .parquet file. A line that is not an object is a BadSpecError that names it."""
    if path.suffix == ".parquet":
        import pyarrow.parquet as pq

        rows: list[dict[str, Any]] = pq.read_table(path).to_pylist()
        return rows
    return [_json_object(line, f"{path.name} line {i}") for i, line in enumerate(_lines(path), start=1)]


def _lines(path: Path) -> list[str]:
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise BadSpecError(f"{path}: want a readable UTF-8 file of JSON lines, got {error}; mend the file") from error
    return text.removesuffix("\n").split("\n") if text else []  # splitlines() would cut at U+2028 inside a text


def _json_object(line: str, where: str) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError as error:
        raise BadSpecError(f"{where}: want a JSON object, got {line[:60]!r}; mend or remove the line") from error
    if not isinstance(row, dict):
        raise BadSpecError(f"{where}: want a JSON object, got {line[:60]!r}; mend or remove the line")
    return row


def parse_record(row: dict[str, Any], record_type: type[R], where: str) -> R:
    """A row as a record. Raises BadSpecError that names the place, the field, what was wanted and what was there."""
    try:
        return record_type.model_validate(row)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        field_name = ".".join(str(part) for part in first["loc"]) or "row"
        raise BadSpecError(
            f"{where}: want {record_type.__name__.lower()} field {field_name!r} ({first['msg']}), "
            f"got {str(first['input'])[:60]!r}; mend or remove the row"
        ) from error
