"""One source file to passages: a reader for each form. Which text is whose document is decided here.

A text is cut only when it is longer than `MAX_CHARS`: between paragraphs, a long paragraph between lines, a long line
after a sentence, a long sentence anywhere. Joined again, the pieces are the whole text, so nothing is lost.
"""

import gzip
import json
import re
import zlib
from collections.abc import Callable, Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import zstandard

from infra.errors import BadSpecError
from stages.manual_pages import read_manual
from stages.python_source import Passage, read_python
from stages.sources import Reader

MAX_CHARS = 4_000
MIN_PROSE_CHARS = 300
_USER_META = ("title", "license", "source", "lang")
_LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_CUTS = (
    re.compile(r"(?<=\n\n)|(?<=\n\r\n)"),
    re.compile(r"(?<=\n)"),
    re.compile(r"(?<=[.!?] )|(?<=[\u3002\uff01\uff1f])"),
)
_UNDERLINE = re.compile(r"^([=\-~^#*+\"'`.:_])\1{2,}\s*$")


WHAT_TO_DO = {
    "empty_file": "remove it",
    "no_documents": "give it rows with a text, or remove it",
    "binary_file": "save its text as UTF-8, or remove it",
    "not_utf8": "save it as UTF-8, or remove it",
    "cannot_be_decompressed": "copy the archive again, or remove it",
    "not_parquet": "write it as Parquet, or remove it",
    "damaged_parquet": "write it again, or remove it",
}


class UnreadableError(Exception):
    """The file is no document; the message is the reason, a name of WHAT_TO_DO."""


def read_file(path: Path, reader: Reader, name: str) -> Iterator[Passage]:
    """The passages of one file. Raises UnreadableError (skip and count) or BadSpecError (refuse)."""
    data = _uncompressed(path)
    if not data:
        raise UnreadableError("empty_file")
    if reader == "parquet":
        yield from _rows(_parquet_rows(data, name), name, "row")
        return
    if b"\0" in data[:8192]:
        raise UnreadableError("binary_file")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise UnreadableError("not_utf8") from error
    yield from _READERS[reader](text, name)


def _uncompressed(path: Path) -> bytes:
    data = path.read_bytes()
    try:
        if path.suffix.lower() == ".gz":
            return gzip.decompress(data)
        if path.suffix.lower() == ".zst":
            return b"".join(_zstd_frames(data))
    except (OSError, EOFError, zlib.error, zstandard.ZstdError) as error:
        raise UnreadableError("cannot_be_decompressed") from error
    return data


def _zstd_frames(data: bytes) -> Iterator[bytes]:
    while data:
        frame = zstandard.ZstdDecompressor().decompressobj()
        yield frame.decompress(data)
        if not frame.eof:  # the library does not mind a file that was cut
            raise EOFError("want a whole Zstandard frame")
        data = frame.unused_data


def _text(text: str, name: str) -> Iterator[Passage]:
    yield from (Passage("user", piece, {"title": name}) for piece in cut(text))


def cut(text: str, max_chars: int = MAX_CHARS) -> list[str]:
    """Pieces of at most `max_chars`, cut where it hurts least; "".join(pieces) is the text."""
    return _cut(text, max_chars, _CUTS)


def _cut(text: str, max_chars: int, places: tuple[re.Pattern[str], ...]) -> list[str]:
    if len(text) <= max_chars:
        return [text] if text else []
    if not places:
        return [text[i : i + max_chars] for i in range(0, len(text), max_chars)]
    pieces, piece = [], ""
    for part in places[0].split(text):
        if len(piece) + len(part) > max_chars:
            *whole, piece = [*([piece] if piece else []), *_cut(part, max_chars, places[1:])]
            pieces += whole
        else:
            piece += part
    return [*pieces, piece] if piece else pieces


def _jsonl(text: str, name: str) -> Iterator[Passage]:
    lines = text.removesuffix("\n").split("\n")
    rows = ((i, _parsed(line, f"{name} line {i}")) for i, line in enumerate(lines, start=1) if line.strip())
    yield from _rows(rows, name, "line")


def _json(text: str, name: str) -> Iterator[Passage]:
    parsed = _parsed(text, name)
    items = parsed if isinstance(parsed, list) else [parsed]
    yield from _rows(enumerate(items, start=1), name, "item")


def _parsed(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadSpecError(f"{where}: want JSON with a 'text' field, got {text[:60]!r}; mend or remove it") from error


def _parquet_rows(data: bytes, name: str) -> Iterator[tuple[int, Any]]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        file = pq.ParquetFile(pa.BufferReader(data))
        names = file.schema_arrow.names
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError("not_parquet") from error
    if "text" not in names:
        raise BadSpecError(
            f"{name}: want a column 'text', got {', '.join(names)[:60]}; rename the column that holds it"
        )
    wanted = [column for column in names if column in {"text", *_USER_META}]
    try:
        rows = file.read(columns=wanted, use_threads=False).to_pylist()
    except (pa.ArrowException, OSError) as error:
        raise UnreadableError("damaged_parquet") from error
    yield from enumerate(rows, start=1)


def _rows(rows: Iterator[tuple[int, Any]] | enumerate[Any], name: str, unit: str) -> Iterator[Passage]:
    for number, row in rows:
        text = row.get("text") if isinstance(row, dict) else None
        if not isinstance(text, str):
            raise BadSpecError(
                f"{name} {unit} {number}: want an object with a 'text' field that holds a string, "
                f"got {json.dumps(row, ensure_ascii=False, default=str)[:60]!r}; mend or remove it"
            )
        meta = {key: row[key] for key in _USER_META if isinstance(row.get(key), str)}
        if _LONE_SURROGATE.search("".join((text, *meta.values()))):
            raise BadSpecError(
                f"{name} {unit} {number}: want text that can be written as UTF-8, got half of a surrogate pair; "
                f"mend or remove it"
            )
        yield from (Passage("user", piece, meta) for piece in cut(text))


def _prose(text: str, name: str) -> Iterator[Passage]:
    """Sections of reStructuredText or plain documentation, at underlined headings; short ones stay with the next."""
    lines = text.split("\n")
    heads = [i for i in range(len(lines) - 1) if lines[i].strip() and _UNDERLINE.match(lines[i + 1])]
    edges = [0, *[i for i in heads if i > 0], len(lines)]
    waiting, title = "", ""
    for start, end in pairwise(edges):
        title = title or lines[start].strip()
        waiting += "\n".join(lines[start:end]) + "\n"
        if len(waiting) >= MIN_PROSE_CHARS or end == len(lines):
            yield from (Passage("doc", piece, {"title": title, "file": name}) for piece in cut(waiting.strip("\n")))
            waiting, title = "", ""


def _python(text: str, name: str) -> Iterator[Passage]:
    module = name.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    yield from read_python(text, module)


def _manual(text: str, name: str) -> Iterator[Passage]:
    page = read_manual(text)
    meta = {"title": name, "name": page.name, "summary": page.summary}
    for i, piece in enumerate(cut(page.text)):
        yield Passage("manual", piece, meta if i == 0 else {"title": name})


def _reviews(label: str) -> Callable[[str, str], Iterator[Passage]]:
    def read(text: str, _name: str) -> Iterator[Passage]:
        yield from (Passage("review", line.strip(), {"label": label}) for line in text.split("\n") if line.strip())

    return read


_READERS: dict[Reader, Callable[[str, str], Iterator[Passage]]] = {
    "text": _text,
    "jsonl": _jsonl,
    "json": _json,
    "prose": _prose,
    "python": _python,
    "manual": _manual,
    "review_positive": _reviews("positive"),
    "review_negative": _reviews("negative"),
}
