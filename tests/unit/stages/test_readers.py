"""Laws of the readers: nothing is lost by cutting, odd files are skipped with a reason, broken rows are refused."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import BadSpecError
from stages.readers import MAX_CHARS, UnreadableError, cut, read_file
from stages.sources import user_reader

TEXT = st.text(st.characters(exclude_categories=("Cs",)) | st.sampled_from("\n\n\n. 。"), max_size=200)
LONG = "First paragraph.\n\nSecond one.\n\n"


def read(path: Path, data: bytes) -> list[str]:
    path.write_bytes(data)
    reader = user_reader(path)
    assert reader is not None
    return [passage.text for passage in read_file(path, reader, path.name)]


@settings(deadline=None)
@given(text=TEXT, max_chars=st.integers(1, 40))
def test_the_pieces_are_the_text_and_none_is_empty_or_too_long(text, max_chars):
    pieces = cut(text, max_chars)
    assert "".join(pieces) == text
    assert all(0 < len(piece) <= max_chars for piece in pieces)


def test_a_text_is_cut_between_paragraphs_where_that_is_possible():
    assert cut("aaa\n\nbbb\n\nccc", 10) == ["aaa\n\nbbb\n\n", "ccc"]
    assert cut("aaa\r\n\r\nbbb", 8) == ["aaa\r\n\r\n", "bbb"]


def test_a_long_paragraph_is_cut_between_lines_then_sentences_then_anywhere():
    assert cut("aaaa\nbbbb\ncccc", 10) == ["aaaa\nbbbb\n", "cccc"]
    assert cut("One two. Three four.", 12) == ["One two. ", "Three four."]
    assert cut("甲乙丙。丁戊己。", 5) == ["甲乙丙。", "丁戊己。"]
    assert cut("abcdefg", 3) == ["abc", "def", "g"]


def test_a_large_text_file_loses_nothing(tmp_path: Path):
    text = "".join(f"{LONG}{i} " for i in range(2000))
    pieces = read(tmp_path / "big.txt", text.encode())
    assert "".join(pieces) == text
    assert len(pieces) > len(text) / MAX_CHARS


@pytest.mark.parametrize("ending", ["", ".gz", ".zst"])
def test_a_compressed_file_reads_like_the_plain_one(tmp_path: Path, ending):
    pack = {"": bytes, ".gz": gzip.compress, ".zst": zstandard.ZstdCompressor().compress}[ending]
    assert read(tmp_path / f"a.txt{ending}", pack(b"some text")) == ["some text"]
    row = json.dumps({"text": "a row"}).encode()
    assert read(tmp_path / f"a.jsonl{ending}", pack(row + b"\n\n" + row)) == ["a row", "a row"]


def test_a_file_of_several_frames_is_read_to_its_end(tmp_path: Path):
    frame = zstandard.ZstdCompressor().compress(b"part. ")
    assert read(tmp_path / "a.txt.zst", frame * 3) == ["part. part. part. "]
    assert read(tmp_path / "a.txt.gz", gzip.compress(b"part. ") * 3) == ["part. part. part. "]


def _damaged_gzip() -> bytes:
    data = bytearray(gzip.compress(bytes(range(256)) * 20))
    data[12:40] = b"\xff" * 28
    return bytes(data)


@pytest.mark.parametrize(
    ("name", "data", "reason"),
    [
        ("a.txt", b"", "empty_file"),
        ("a.txt.gz", b"", "empty_file"),
        ("a.txt.zst", b"", "empty_file"),
        ("a.txt", b"\x89PNG\r\n\0\0\0", "binary_file"),
        ("a.txt", "text".encode("utf-16"), "binary_file"),
        ("a.txt", b"caf\xe9", "not_utf8"),
        ("a.jsonl", b'{"text": "caf\xe9"}', "not_utf8"),
        ("a.txt.gz", b"no gzip at all", "cannot_be_decompressed"),
        ("a.txt.gz", gzip.compress(b"text" * 99)[:-9], "cannot_be_decompressed"),
        ("a.txt.gz", _damaged_gzip(), "cannot_be_decompressed"),
        ("a.txt.zst", b"no zstd at all", "cannot_be_decompressed"),
        ("a.txt.zst", zstandard.ZstdCompressor().compress(b"text" * 99)[:-3], "cannot_be_decompressed"),
        ("a.parquet", b"no parquet at all", "not_parquet"),
    ],
)
def test_a_file_that_is_no_document_has_a_reason(tmp_path: Path, name, data, reason):
    with pytest.raises(UnreadableError, match=f"^{reason}$"):
        read(tmp_path / name, data)


@pytest.mark.parametrize(
    ("name", "data", "message"),
    [
        ("a.jsonl", b'{"text": "x"}\nnot json\n', r"a.jsonl line 2: want JSON with a 'text' field, got 'not json'"),
        ("a.jsonl", b'{"text": "x"}\n\n{"body": "x"}', r"a.jsonl line 3: want an object with a 'text' field .* got"),
        ("a.jsonl", b'["x"]', r"a.jsonl line 1: want an object with a 'text' field .* got '\[\"x\"\]'; mend or remove"),
        ("a.jsonl", b'{"text": 7}', r"a.jsonl line 1: want .* that holds a string, got '\{\"text\": 7\}'"),
        ("a.jsonl", b'{"text": null}', r"a.jsonl line 1: want .* that holds a string"),
        ("a.jsonl", b'{"text": "\\ud800"}', r"a.jsonl line 1: want text that can be written as UTF-8"),
        ("a.jsonl", b'{"text": "x", "title": "\\udfff"}', r"a.jsonl line 1: want text that can be written as UTF-8"),
        ("a.jsonl", b"[" * 100_000, r"a.jsonl line 1: want JSON with a 'text' field"),
        ("a.json", b'[{"text": "x"}, {}]', r"a.json item 2: want an object with a 'text' field"),
        ("a.json", b"{", r"a.json: want JSON with a 'text' field, got '\{'; mend or remove it"),
    ],
)
def test_a_broken_row_is_refused_with_its_file_and_line(tmp_path: Path, name, data, message):
    with pytest.raises(BadSpecError, match=message):
        read(tmp_path / name, data)


def write_parquet(path: Path, columns: dict) -> bytes:
    pq.write_table(pa.table(columns), path)
    return path.read_bytes()


def test_parquet_rows_are_documents_with_their_own_license_and_title(tmp_path: Path):
    path = tmp_path / "a.parquet"
    write_parquet(path, {"text": ["one", "two"], "license": ["MIT", None], "extra": [1, 2]})
    passages = list(read_file(path, "parquet", path.name))
    assert [(p.text, p.meta) for p in passages] == [("one", {"license": "MIT"}), ("two", {})]


def test_parquet_without_a_text_column_or_with_an_empty_text_is_refused(tmp_path: Path):
    data = write_parquet(tmp_path / "a.parquet", {"body": ["one"]})
    with pytest.raises(BadSpecError, match=r"a.parquet: want a column 'text', got body; rename the column"):
        read(tmp_path / "a.parquet", data)
    data = write_parquet(tmp_path / "a.parquet", {"text": ["one", None]})
    with pytest.raises(BadSpecError, match=r"a.parquet row 2: want an object with a 'text' field"):
        read(tmp_path / "a.parquet", data)


def test_parquet_with_damaged_pages_is_skipped(tmp_path: Path):
    data = bytearray(write_parquet(tmp_path / "a.parquet", {"text": [f"row {i} of many" for i in range(500)]}))
    data[10:200] = b"\xff" * 190
    with pytest.raises(UnreadableError, match="damaged_parquet"):
        read(tmp_path / "a.parquet", bytes(data))


def test_a_byte_order_mark_is_no_text(tmp_path: Path):
    assert read(tmp_path / "a.txt", b"\xef\xbb\xbftext") == ["text"]


def test_prose_is_cut_at_headings_and_keeps_every_line(tmp_path: Path):
    sections = [f"Heading {i}\n=========\n\n" + f"Body {i} of the page. " * 20 + "\n" for i in range(5)]
    path = tmp_path / "page.txt"
    path.write_text("".join(sections))
    passages = list(read_file(path, "prose", "docs/page.txt"))
    assert [p.meta for p in passages] == [{"title": f"Heading {i}", "file": "docs/page.txt"} for i in range(5)]
    assert "\n".join(p.text for p in passages).split() == path.read_text().split()


def test_a_short_section_stays_with_the_next_one(tmp_path: Path):
    path = tmp_path / "page.txt"
    path.write_text("Title\n=====\n\nShort.\n\nNext\n----\n\n" + "Long body. " * 40)
    assert [p.meta["title"] for p in read_file(path, "prose", "page.txt")] == ["Title"]


def test_reviews_are_one_a_line_with_the_label_of_their_file(tmp_path: Path):
    path = tmp_path / "neg.txt"
    path.write_text("太差了\n\n 不好 \n")
    passages = list(read_file(path, "review_negative", "neg.txt"))
    assert [(p.text, p.meta) for p in passages] == [("太差了", {"label": "negative"}), ("不好", {"label": "negative"})]


def test_a_long_manual_page_is_cut_and_only_its_first_piece_has_the_summary(tmp_path: Path):
    path = tmp_path / "ls.1"
    path.write_text(".SH NAME\nls \\- list files\n.SH OPTIONS\n" + ".PP\nAn option is described here.\n" * 300)
    first, *others = read_file(path, "manual", "man1/ls.1")
    assert first.meta == {"title": "man1/ls.1", "name": "ls", "summary": "list files"}
    assert others
    assert all(p.meta == {"title": "man1/ls.1"} for p in others)


def test_the_module_of_a_python_file_follows_from_its_path(tmp_path: Path):
    path = tmp_path / "x.py"
    path.write_text('"""' + "A module that says what it does. " * 6 + '"""\n')
    (passage,) = read_file(path, "python", "pkg/sub/__init__.py")
    assert passage.meta["module"] == "pkg.sub"
