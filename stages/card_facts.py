"""Facts of a release that its model card tells: data by licence, language and source, sizes, digests, recipe.

Everything is read from artifacts, so the same artifacts give the same card.
"""

import hashlib
import json
import math
import struct
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

WEIGHTS_NAME = "model.safetensors"
_MAX_SOURCES = 25


class Share(BaseModel):
    """A part of the corpus."""

    model_config = ConfigDict(frozen=True)
    label: str
    num_documents: int
    num_bytes: int


class DataFacts(BaseModel):
    """What the model was trained from."""

    model_config = ConfigDict(frozen=True)
    num_documents: int
    num_bytes: int
    licenses: tuple[Share, ...]
    languages: tuple[Share, ...]
    domains: tuple[Share, ...]
    sources: tuple[Share, ...]
    num_other_sources: int


class ModelFacts(BaseModel):
    """One model directory."""

    model_config = ConfigDict(frozen=True)
    name: str
    digest: str
    num_bytes: int
    weights_sha256: str
    weights_bytes: int
    num_tensors: int
    num_elements: int  # parameters of a full-precision model; packed weights count two a byte or less
    dtypes: tuple[str, ...]
    config: dict[str, Any]


def data_facts(corpus_dir: Path) -> DataFacts:
    """Counts over the corpus: documents and UTF-8 bytes by licence, language, domain and source."""
    import pyarrow.compute as pc
    import pyarrow.parquet as pq

    columns = ("license", "lang", "domain", "source")
    counts: dict[str, Counter[str]] = {name: Counter() for name in columns}
    sizes: dict[str, Counter[str]] = {name: Counter() for name in columns}
    num_documents = num_bytes = 0
    for path in sorted(corpus_dir.glob("part-*.parquet")):
        for batch in pq.ParquetFile(path).iter_batches(columns=[*columns, "text"]):
            lengths = pc.binary_length(batch.column("text").cast("binary")).to_pylist()
            num_documents += len(lengths)
            num_bytes += sum(lengths)
            for name in columns:
                labels = [_group(name, label) for label in batch.column(name).to_pylist()]
                counts[name].update(labels)
                for label, length in zip(labels, lengths, strict=True):
                    sizes[name][label] += length
    shares = {name: _shares(counts[name], sizes[name]) for name in columns}
    return DataFacts(
        num_documents=num_documents,
        num_bytes=num_bytes,
        licenses=shares["license"],
        languages=shares["lang"],
        domains=shares["domain"],
        sources=shares["source"][:_MAX_SOURCES],
        num_other_sources=max(0, len(shares["source"]) - _MAX_SOURCES),
    )


def _group(column: str, label: str) -> str:
    """Documents of one package count together: a source is grouped by what stands before its first slash."""
    return label.split("/", maxsplit=1)[0] if column == "source" else label


def _shares(counts: Counter[str], sizes: Counter[str]) -> tuple[Share, ...]:
    found = (Share(label=label, num_documents=counts[label], num_bytes=sizes[label]) for label in counts)
    return tuple(sorted(found, key=lambda share: (-share.num_bytes, share.label)))


def model_facts(name: str, directory: Path, digest: str, num_bytes: int) -> ModelFacts:
    """Digest and header of the weights, and the configuration."""
    weights = directory / WEIGHTS_NAME
    with weights.open("rb") as file:
        sha256 = hashlib.file_digest(file, "sha256").hexdigest()
        file.seek(0)
        (header_bytes,) = struct.unpack("<Q", file.read(8))  # safetensors: length of the JSON header, little-endian
        header = json.loads(file.read(header_bytes))
    tensors = {key: value for key, value in header.items() if key != "__metadata__"}
    config: dict[str, Any] = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    return ModelFacts(
        name=name,
        digest=digest,
        num_bytes=num_bytes,
        weights_sha256=sha256,
        weights_bytes=weights.stat().st_size,
        num_tensors=len(tensors),
        num_elements=sum(math.prod(value["shape"]) for value in tensors.values()),
        dtypes=tuple(sorted({value["dtype"] for value in tensors.values()})),
        config=config,
    )


def count_by_task(lines: Iterable[str]) -> tuple[tuple[str, str, int], ...]:
    """(task, language, how many) of JSON lines with these two fields."""
    counts = Counter((record["task"], record["lang"]) for record in map(json.loads, lines))
    return tuple((task, lang, number) for (task, lang), number in sorted(counts.items()))
