"""Tokens on disk: memory-mapped splits with an index of documents.

`<split>.bin` holds little-endian unsigned integers (16 bits if the vocabulary fits, else 32): one document end, then
each document's tokens followed by another. So the tokens before and after every document are document ends, and a
shifted slice of the file is an input-target pair. `documents.parquet` has one row a document, in file order; `offset`
points at its first text token, `num_tokens` counts text tokens without the end. `manifest.json` says the rest.

Shapes: N documents, S stream tokens.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

SPLITS = ("train", "heldout")
_MANIFEST_NAME = "manifest.json"
_DOCUMENTS_NAME = "documents.parquet"
_MAX_UINT16_VOCAB = 65536
_SCHEMA = pa.schema(
    [
        ("split", pa.string()),
        ("doc_id", pa.string()),
        ("lang", pa.string()),
        ("domain", pa.string()),
        ("num_bytes", pa.int64()),  # UTF-8 bytes of the text
        ("num_tokens", pa.int64()),
        ("offset", pa.int64()),
    ]
)


@dataclass(frozen=True)
class TokenDocument:
    """One encoded document."""

    doc_id: str
    lang: str
    domain: str
    num_bytes: int
    token_ids: Sequence[int]  # text only, no document end


class TokenSplit:
    """One split: the memory-mapped stream and its documents."""

    def __init__(self, stream_S: np.ndarray, documents: pa.Table) -> None:
        self.stream_S = stream_S
        self.offset_N: np.ndarray = documents["offset"].to_numpy()
        self.num_tokens_N: np.ndarray = documents["num_tokens"].to_numpy()
        self.num_bytes_N: np.ndarray = documents["num_bytes"].to_numpy()
        self.doc_ids: list[str] = documents["doc_id"].to_pylist()
        self.langs: list[str] = documents["lang"].to_pylist()
        self.domains: list[str] = documents["domain"].to_pylist()

    def __len__(self) -> int:
        return len(self.offset_N)

    def tokens(self, doc_idx: int) -> np.ndarray:
        """The text tokens of one document."""
        start = int(self.offset_N[doc_idx])
        return self.stream_S[start : start + int(self.num_tokens_N[doc_idx])]

    @cached_property
    def num_text_tokens(self) -> int:
        """Text tokens of all documents, ends not counted."""
        return int(self.num_tokens_N.sum())


class TokenShards:
    """A tokens artifact, read."""

    def __init__(self, directory: Path) -> None:
        self.manifest: dict[str, Any] = json.loads((directory / _MANIFEST_NAME).read_text())
        self.vocab_size: int = self.manifest["vocab_size"]
        self.end_id: int = self.manifest["end_id"]
        table = pq.read_table(directory / _DOCUMENTS_NAME, memory_map=True)
        self.splits = {
            name: TokenSplit(
                _open(directory / f"{name}.bin", self.vocab_size), table.filter(pa.compute.equal(table["split"], name))
            )
            for name in SPLITS
        }

    @property
    def train(self) -> TokenSplit:
        """What is trained on."""
        return self.splits["train"]

    @property
    def heldout(self) -> TokenSplit:
        """What is only ever scored."""
        return self.splits["heldout"]


def dtype_of(vocab_size: int) -> np.dtype[Any]:
    """The smallest of the two integer types that holds every token id."""
    return np.dtype("<u2" if vocab_size <= _MAX_UINT16_VOCAB else "<u4")


def _open(path: Path, vocab_size: int) -> np.ndarray:
    return np.memmap(path, dtype=dtype_of(vocab_size), mode="r")


class TokenWriter:
    """Write a tokens artifact document by document; `close` writes the index."""

    def __init__(self, directory: Path, *, vocab_size: int, end_id: int) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._vocab_size = vocab_size
        self._end_id = end_id
        self._dtype = dtype_of(vocab_size)
        self._files = {name: (directory / f"{name}.bin").open("wb") for name in SPLITS}
        self._num_written = dict.fromkeys(SPLITS, 0)
        self._rows: dict[str, dict[str, list[Any]]] = {name: {field: [] for field in _SCHEMA.names} for name in SPLITS}
        for name in SPLITS:
            self._append(name, [end_id])

    def add(self, split: str, documents: Iterable[TokenDocument]) -> None:
        """Append documents to one split."""
        rows = self._rows[split]
        for document in documents:
            rows["offset"].append(self._num_written[split])
            rows["num_tokens"].append(len(document.token_ids))
            rows["split"].append(split)
            for name in ("doc_id", "lang", "domain", "num_bytes"):
                rows[name].append(getattr(document, name))
            self._append(split, [*document.token_ids, self._end_id])

    def _append(self, split: str, token_ids: Sequence[int]) -> None:
        array = np.asarray(token_ids, dtype=np.int64)
        if array.size and not 0 <= int(array.min()) <= int(array.max()) < self._vocab_size:
            raise ValueError(
                f"token ids: want 0..{self._vocab_size - 1}, got {int(array.min())}..{int(array.max())}; "
                f"encode with the tokenizer of this vocabulary"
            )
        self._files[split].write(array.astype(self._dtype).tobytes())
        self._num_written[split] += array.size

    def close(self, **facts: Any) -> dict[str, Any]:
        """Finish the files; `facts` join the manifest, which is returned."""
        for file in self._files.values():
            file.close()
        columns = {field: [v for name in SPLITS for v in self._rows[name][field]] for field in _SCHEMA.names}
        pq.write_table(pa.table(columns, schema=_SCHEMA), self._directory / _DOCUMENTS_NAME, compression="zstd")
        counts = {
            name: {
                "num_documents": len(self._rows[name]["doc_id"]),
                "num_tokens": sum(self._rows[name]["num_tokens"]),
                "num_bytes": sum(self._rows[name]["num_bytes"]),
            }
            for name in SPLITS
        }
        manifest = {"vocab_size": self._vocab_size, "end_id": self._end_id, "dtype": self._dtype.str, **counts, **facts}
        (self._directory / _MANIFEST_NAME).write_text(json.dumps(manifest, indent=1, sort_keys=True))
        return manifest
