"""Tokenized rows in an Arrow file that is memory-mapped: training reads from the page cache, not from the heap."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

from datasets import Dataset, Features, List, Value
from datasets.arrow_writer import ArrowWriter

_ROWS_PER_BATCH = 1000


def write_mapped_rows(path: Path, rows: Iterable[Mapping[str, Sequence[int]]], columns: Sequence[str]) -> Dataset:
    """Write rows of token-id lists and open them memory-mapped. Raises ValueError if there is none."""
    features = Features({name: List(Value("int32")) for name in columns})
    num_rows = 0
    with ArrowWriter(path=str(path), features=features, writer_batch_size=_ROWS_PER_BATCH) as writer:
        for row in rows:
            writer.write({name: list(row[name]) for name in columns})
            num_rows += 1
        if num_rows:
            writer.finalize()
    if not num_rows:
        raise ValueError("dataset: want at least one row, got 0; every example was dropped or none was given")
    return Dataset.from_file(str(path))
