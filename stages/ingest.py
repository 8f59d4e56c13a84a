"""Stage `ingest`: read the files of the source manifest into documents with a stable id, source and license.

A document's id is the hash of where it stands (source, path, position) and what it says, never of the folder's place on
this machine. Files are read in the order of their hash until every domain has its budget, so a budget takes an even
sample. A file that is no document is skipped, named and counted; a broken row is refused.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

from pydantic import Field, NonNegativeInt, PositiveInt

from infra.artifacts import RawCorpus, SourceManifest, file_sha256
from infra.errors import BadSpecError, RetryableError
from stages.contract import Headline, Stage, StageContext, StageModel
from stages.python_source import Passage
from stages.records import CorpusWriter, Document, write_report
from stages.sources import Manifest, Source, SourceFile

_LANG_OF_DOMAIN = {"code": "code"}


class IngestConfig(StageModel):
    """How much is read."""

    max_domain_bytes: dict[str, int] = Field(
        default={"api": 9_500_000, "doc": 7_500_000, "code": 3_000_000, "review": 7_500_000, "manual": 2_000_000},
        description="budget of each domain, in UTF-8 bytes; a domain that is not named has none",
    )
    min_documents: PositiveInt = Field(default=20, description="fewest documents that make a corpus")
    min_bytes: NonNegativeInt = Field(default=20_000, description="least text that makes a corpus, in UTF-8 bytes")


class IngestInputs(StageModel):
    """Which files to read."""

    sources: SourceManifest


class IngestOutputs(StageModel):
    """The documents."""

    corpus: RawCorpus


def run(config: IngestConfig, inputs: IngestInputs, ctx: StageContext) -> IngestOutputs:
    """Read every file within the budgets; write the documents in the order of their ids."""
    from stages.readers import UnreadableError, read_file

    manifest = Manifest.read(ctx.store.get(inputs.sources))
    files = _hash_order(manifest)
    documents: dict[str, Document] = {}
    num_bytes: Counter[str] = Counter()
    skipped: Counter[str] = Counter()
    for i, (source, file) in enumerate(files):
        ctx.progress(i, len(files), "files")
        if _is_full(_domains_of(file), num_bytes, config):
            continue
        path = Path(source.root) / file.path
        _check_unchanged(path, file)
        try:
            passages = list(read_file(path, file.reader, file.path))
        except UnreadableError as error:
            ctx.log(f"warning: {path}: skipped, {error}; want UTF-8 text")
            skipped[str(error)] += 1
            continue
        for document in _documents(source, file, passages):
            if not _is_full((document.domain,), num_bytes, config) and document.id not in documents:
                documents[document.id] = document
                num_bytes[document.domain] += len(document.text.encode())
    ctx.progress(len(files), len(files), "files")
    _check_size(documents, num_bytes, skipped, config)
    out = ctx.scratch / "corpus"
    writer = CorpusWriter(out)
    for document_id in sorted(documents):
        writer.write(documents[document_id])
    writer.close()
    by_domain = Counter(document.domain for document in documents.values())
    licenses = Counter(document.license for document in documents.values())
    report = {
        "documents": len(documents),
        "documents_by_domain": dict(sorted(by_domain.items())),
        "bytes_by_domain": dict(sorted(num_bytes.items())),
        "documents_by_license": dict(sorted(licenses.items())),
        "files_in_manifest": len(files),
        "files_skipped": dict(sorted(skipped.items())),
    }
    write_report(out, report)
    ctx.log_metric("ingest/files", len(files))
    ctx.log_metric("ingest/documents", len(documents))
    ctx.log_metric("ingest/bytes", num_bytes.total())
    for reason, count in sorted(skipped.items()):
        ctx.log_metric(f"ingest/files_skipped/{reason}", count)
    for domain, count in sorted(by_domain.items()):
        ctx.log_metric(f"ingest/documents/{domain}", count)
    return IngestOutputs(corpus=ctx.store.put(out, RawCorpus))


def _hash_order(manifest: Manifest) -> list[tuple[Source, SourceFile]]:
    files = [(source, file) for source in manifest.sources for file in source.files]
    return sorted(files, key=lambda item: hashlib.sha256(f"{item[0].name}/{item[1].path}".encode()).digest())


def _domains_of(file: SourceFile) -> tuple[str, ...]:
    """The domains that a reader can fill."""
    return {"python": ("api", "code"), "prose": ("doc",), "manual": ("manual",)}.get(
        file.reader, ("review",) if file.reader.startswith("review") else ("user",)
    )


def _is_full(domains: tuple[str, ...], num_bytes: Counter[str], config: IngestConfig) -> bool:
    return all(num_bytes[d] >= config.max_domain_bytes.get(d, float("inf")) for d in domains)


def _check_unchanged(path: Path, file: SourceFile) -> None:
    if not path.is_file() or file_sha256(path) != file.sha256:
        raise RetryableError(f"{path}: want the file that was scanned, got a changed or missing one; run again")


def _documents(source: Source, file: SourceFile, passages: list[Passage]) -> Iterator[Document]:
    """One document a passage; in files of one-line documents the order is by hash, so that a budget takes a sample."""
    documents = []
    for position, passage in enumerate(passages):
        where = f"{source.name}/{file.path}#{position}\n{passage.text}"
        meta = dict(passage.meta)
        documents.append(
            Document(
                id=hashlib.sha256(where.encode("utf-8", "surrogatepass")).hexdigest()[:16],
                text=passage.text,
                source=meta.pop("source", f"{source.name} {source.version}".strip()),
                license=meta.pop("license", source.license),
                lang=meta.pop("lang", _LANG_OF_DOMAIN.get(passage.domain, "und")),
                domain=passage.domain,
                meta=meta,
            )
        )
    yield from sorted(documents, key=lambda d: d.id) if file.reader.startswith("review") else documents


def _check_size(
    documents: dict[str, Document], num_bytes: Counter[str], skipped: Counter[str], config: IngestConfig
) -> None:
    if len(documents) >= config.min_documents and num_bytes.total() >= config.min_bytes:
        return
    reasons = "".join(f", {count} files skipped: {reason}" for reason, count in sorted(skipped.items()))
    raise BadSpecError(
        f"corpus: want at least {config.min_documents} documents with {config.min_bytes} bytes of text, got "
        f"{len(documents)} with {num_bytes.total()}{reasons}; give more documents, or lower ingest.min_documents and "
        f"ingest.min_bytes"
    )


STAGE = Stage(
    name="ingest",
    config=IngestConfig,
    inputs=IngestInputs,
    outputs=IngestOutputs,
    run=run,
    metrics=("ingest/files", "ingest/documents*", "ingest/bytes", "ingest/files_skipped/*"),
    headline=Headline("documents", after="ingest/documents"),
)
