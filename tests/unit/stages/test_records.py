"""Laws of the records that stages hand on."""

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.errors import BadSpecError
from stages.records import (
    Check,
    CorpusWriter,
    Document,
    Instruction,
    Preference,
    Turn,
    is_held_out,
    read_corpus,
    read_records,
    write_records,
)

TEXT = st.text(st.characters(exclude_categories=("Cs",)))
INSTRUCTION = Instruction(
    id="1",
    task="t",
    lang="zh",
    phase=0,
    messages=(Turn(role="user", content="问?"), Turn(role="assistant", content="答")),
    doc_id="d",
    check=Check(kind="exact", answer="答"),
)


def documents(count: int) -> list[Document]:
    return [Document(f"id{i}", f"text {i} 文\n", "s", "MIT", "en", "doc", {"title": str(i)}) for i in range(count)]


def write_corpus(directory: Path, docs: list[Document], per_shard: int) -> Path:
    writer = CorpusWriter(directory, per_shard)
    for document in docs:
        writer.write(document)
    writer.close()
    return directory


@pytest.mark.parametrize("per_shard", [1, 3, 10, 100])
def test_documents_come_back_in_order_whatever_the_shards(tmp_path: Path, per_shard: int):
    assert list(read_corpus(write_corpus(tmp_path / "c", documents(10), per_shard))) == documents(10)


def test_equal_documents_give_equal_bytes(tmp_path: Path):
    first, second = (write_corpus(tmp_path / name, documents(20), 7) for name in ("a", "b"))
    assert [p.read_bytes() for p in sorted(first.iterdir())] == [p.read_bytes() for p in sorted(second.iterdir())]


def test_an_empty_corpus_is_one_empty_shard(tmp_path: Path):
    assert list(read_corpus(write_corpus(tmp_path / "c", [], 5))) == []


@settings(deadline=None, max_examples=30)
@given(text=TEXT, meta=st.dictionaries(TEXT, TEXT, max_size=3))
def test_any_text_survives_the_corpus(tmp_path_factory, text, meta):
    document = Document("i", text, "s", "l", "en", "user", meta)
    directory = write_corpus(tmp_path_factory.mktemp("x") / "c", [document], 5)
    assert list(read_corpus(directory)) == [document]


def test_held_out_documents_are_the_asked_share_and_a_larger_share_holds_the_smaller():
    ids = [str(i) for i in range(20_000)]
    small, large = ({i for i in ids if is_held_out(i, ratio)} for ratio in (0.02, 0.1))
    assert small < large
    assert len(large) == pytest.approx(2000, rel=0.1)
    assert not any(is_held_out(i, 0.0) for i in ids)


def test_records_come_back_as_they_were_written(tmp_path: Path):
    assert write_records(tmp_path / "x.jsonl", [INSTRUCTION] * 3) == 3
    assert read_records(tmp_path / "x.jsonl", Instruction) == [INSTRUCTION] * 3


def test_a_line_separator_inside_a_text_does_not_cut_the_record(tmp_path: Path):
    record = INSTRUCTION.model_copy(update={"task": "a\u2028b\x85c\x0cd"})
    write_records(tmp_path / "x.jsonl", [record])
    assert read_records(tmp_path / "x.jsonl", Instruction) == [record]


def test_the_prompt_is_everything_before_the_answer():
    assert INSTRUCTION.prompt == [{"role": "user", "content": "问?"}]
    assert INSTRUCTION.conversation[-1] == {"role": "assistant", "content": "答"}


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("not json", r"p.jsonl line 2: want a JSON object, got 'not json'"),
        ("[1]", r"p.jsonl line 2: want a JSON object, got '\[1\]'"),
        (json.dumps({"id": "1"}), r"p.jsonl row 2: want preference field 'task' \(Field required\)"),
        (
            json.dumps(
                {"id": "1", "task": "t", "lang": "en", "prompt": [{"role": "robot", "content": ""}], "chosen": "a"}
                | {"rejected": "b", "origin": "file"}
            ),
            r"p.jsonl row 2: want preference field 'prompt.0.role' .*got 'robot'; mend or remove the row",
        ),
    ],
)
def test_a_bad_row_is_named_with_file_row_field_and_value(tmp_path: Path, line: str, message: str):
    good = Preference(
        id="1", task="t", lang="en", prompt=(Turn(role="user", content="q"),), chosen="a", rejected="b", origin="file"
    )
    (tmp_path / "p.jsonl").write_text(good.model_dump_json() + "\n" + line + "\n")
    with pytest.raises(BadSpecError, match=message):
        read_records(tmp_path / "p.jsonl", Preference)


def test_a_file_that_is_not_utf8_is_named(tmp_path: Path):
    (tmp_path / "p.jsonl").write_bytes(b"\xff\xfe\xfa")
    with pytest.raises(BadSpecError, match=r"p.jsonl: want a readable UTF-8 file of JSON lines"):
        read_records(tmp_path / "p.jsonl", Preference)
