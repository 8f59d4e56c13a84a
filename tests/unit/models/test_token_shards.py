from pathlib import Path

import numpy as np
import pytest

from models.token_shards import TokenDocument, TokenShards, TokenWriter, dtype_of
from tests.support.tiny_tokens import documents, write_shards


def test_every_document_comes_back_with_its_facts(tmp_path: Path):
    shards = write_shards(tmp_path, [5, 1, 9], [4], tokenizer="t")
    for split, written in (("train", documents([5, 1, 9])), ("heldout", documents([4], prefix="held", seed=1))):
        read = shards.splits[split]
        assert [read.tokens(idx).tolist() for idx in range(len(read))] == [d.token_ids for d in written]
        assert read.doc_ids == [d.doc_id for d in written]
        assert read.langs == [d.lang for d in written] and read.domains == [d.domain for d in written]
        assert read.num_bytes_N.tolist() == [d.num_bytes for d in written]
    assert shards.manifest["tokenizer"] == "t"
    assert shards.manifest["train"] == {"num_documents": 3, "num_tokens": 15, "num_bytes": 30}


def test_a_document_end_stands_before_and_after_every_document(tmp_path: Path):
    train = write_shards(tmp_path, [5, 1, 9], [4]).train
    for offset, size in zip(train.offset_N, train.num_tokens_N, strict=True):
        assert train.stream_S[offset - 1] == train.stream_S[offset + size] == 0
    assert len(train.stream_S) == 1 + 15 + 3


def test_the_stream_is_memory_mapped(tmp_path: Path):
    assert isinstance(write_shards(tmp_path, [5], [4]).train.stream_S, np.memmap)


def test_an_empty_split_is_readable(tmp_path: Path):
    shards = write_shards(tmp_path, [], [])
    assert len(shards.train) == 0 and shards.train.num_text_tokens == 0


def test_the_same_documents_give_the_same_bytes(tmp_path: Path):
    for name in ("a", "b"):
        write_shards(tmp_path / name, [5, 2], [4])
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_the_integer_type_holds_the_vocabulary():
    assert dtype_of(65536).itemsize == 2 and dtype_of(65537).itemsize == 4


def test_large_vocabularies_round_trip(tmp_path: Path):
    writer = TokenWriter(tmp_path, vocab_size=100_000, end_id=0)
    writer.add("train", [TokenDocument("d", "en", "x", 3, [99_999, 7])])
    writer.close()
    assert TokenShards(tmp_path).train.tokens(0).tolist() == [99_999, 7]


def test_ids_outside_the_vocabulary_are_refused(tmp_path: Path):
    writer = TokenWriter(tmp_path, vocab_size=8, end_id=0)
    with pytest.raises(ValueError, match=r"token ids: want 0\.\.7, got 0\.\.8"):
        writer.add("train", [TokenDocument("d", "en", "x", 1, [8])])
