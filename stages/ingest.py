"""Stage `ingest`: read the files of the source manifest into documents with a stable id, source and license.

A document's id is the hash of where it stands (source, path, position) and what it says, never of the folder's place on
this machine. Files are read in the order of their hash until every domain has its budget, so a budget takes an even
sample; reviews, thousands to a file, are taken in the order of their ids. A file that is no document is skipped, named
and counted; a broken row is refused. Every passage is a document or is counted with the reason why not.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
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

    max_domain_bytes: dict[str, NonNegativeInt] = Field(
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


@dataclass
class _Taken:
    """The documents so far; a document that finds its domain's budget used up is left out and counted."""

    max_domain_bytes: dict[str, int]
    documents: dict[str, Document] = field(default_factory=dict)
    num_bytes: Counter[str] = field(default_factory=Counter)
    left_out: Counter[str] = field(default_factory=Counter)
    files_skipped: Counter[str] = field(default_factory=Counter)
    num_files_over_budget: int = 0

    def is_full(self, domains: tuple[str, ...]) -> bool:
        return all(self.num_bytes[d] >= self.max_domain_bytes.get(d, float("inf")) for d in domains)

    def add(self, document: Document) -> None:
        if not document.text.strip():
            self.left_out["blank"] += 1
        elif document.id in self.documents:
            self.left_out["repeated"] += 1
        elif self.is_full((document.domain,)):
            self.left_out["over_budget"] += 1
        else:
            self.documents[document.id] = document
            self.num_bytes[document.domain] += len(document.text.encode())


def run(config: IngestConfig, inputs: IngestInputs, ctx: StageContext) -> IngestOutputs:
    """Read every file within the budgets; write the documents in the order of their ids."""
    files = _hash_order(Manifest.read(ctx.store.get(inputs.sources)))
    taken = _take(files, config, ctx)
    _check_size(taken, config)
    out = ctx.scratch / "corpus"
    writer = CorpusWriter(out)
    for document_id in sorted(taken.documents):
        writer.write(taken.documents[document_id])
    writer.close()
    by_domain = Counter(document.domain for document in taken.documents.values())
    by_license = Counter(document.license for document in taken.documents.values())
    report = {
        "documents": len(taken.documents),
        "documents_by_domain": dict(sorted(by_domain.items())),
        "bytes_by_domain": dict(sorted(taken.num_bytes.items())),
        "documents_by_license": dict(sorted(by_license.items())),
        "documents_left_out": dict(sorted(taken.left_out.items())),
        "files_in_manifest": len(files),
        "files_over_budget": taken.num_files_over_budget,
        "files_skipped": dict(sorted(taken.files_skipped.items())),
    }
    write_report(out, report)
    ctx.log_metric("ingest/files", len(files))
    ctx.log_metric("ingest/documents", len(taken.documents))
    ctx.log_metric("ingest/bytes", taken.num_bytes.total())
    for reason, count in sorted(taken.files_skipped.items()):
        ctx.log_metric(f"ingest/files_skipped/{reason}", count)
    for domain, count in sorted(by_domain.items()):
        ctx.log_metric(f"ingest/documents/{domain}", count)
    return IngestOutputs(corpus=ctx.store.put(out, RawCorpus))


def _take(files: list[tuple[Source, SourceFile]], config: IngestConfig, ctx: StageContext) -> _Taken:
    from stages.readers import WHAT_TO_DO, UnreadableError

    taken = _Taken(config.max_domain_bytes)
    reviews: list[Document] = []
    for i, (source, file) in enumerate(files):
        ctx.progress(i, len(files), "files")
        if taken.is_full(_domains_of(file)):
            taken.num_files_over_budget += 1
            continue
        path = Path(source.root) / file.path
        _check_unchanged(path, source, file)
        try:
            documents = _read(path, source, file)
        except UnreadableError as error:
            ctx.log(f"warning: {path}: skipped, {error}; {WHAT_TO_DO[str(error)]}")
            taken.files_skipped[str(error)] += 1
            continue
        if file.reader.startswith("review"):
            reviews += documents
            continue
        for document in documents:
            taken.add(document)
    for document in sorted(reviews, key=lambda d: d.id):  # all labels evenly, whatever the budget
        taken.add(document)
    ctx.progress(len(files), len(files), "files")
    return taken


def _hash_order(manifest: Manifest) -> list[tuple[Source, SourceFile]]:
    files = [(source, file) for source in manifest.sources for file in source.files]
    return sorted(files, key=lambda item: hashlib.sha256(f"{item[0].name}/{item[1].path}".encode()).digest())


def _domains_of(file: SourceFile) -> tuple[str, ...]:
    """The domains that a reader can fill."""
    return {"python": ("api", "code"), "prose": ("doc",), "manual": ("manual",)}.get(
        file.reader, ("review",) if file.reader.startswith("review") else ("user",)
    )


def _check_unchanged(path: Path, source: Source, file: SourceFile) -> None:
    if path.is_file() and file_sha256(path) == file.sha256:
        return
    cure = f"install {source.name} again" if source.kind == "installed" else "run again"
    raise RetryableError(f"{path}: want the file that was scanned, got a changed or missing one; {cure}")


def _read(path: Path, source: Source, file: SourceFile) -> list[Document]:
    """The documents of one file. Raises UnreadableError, also for a file of the user's that holds none."""
    from stages.readers import UnreadableError, read_file

    documents = list(_documents(source, file, read_file(path, file.reader, file.path)))
    if not documents and _domains_of(file) == ("user",):
        raise UnreadableError("no_documents")
    return documents


def _documents(source: Source, file: SourceFile, passages: Iterator[Passage]) -> Iterator[Document]:
    """One document a passage."""
    for position, passage in enumerate(passages):
        where = f"{source.name}/{file.path}#{position}\n{passage.text}"
        meta = dict(passage.meta)
        yield Document(
            id=hashlib.sha256(where.encode()).hexdigest()[:16],
            text=passage.text,
            source=meta.pop("source", f"{source.name} {source.version}".strip()),
            license=meta.pop("license", source.license),
            lang=meta.pop("lang", _LANG_OF_DOMAIN.get(passage.domain, "und")),
            domain=passage.domain,
            meta=meta,
        )


def _check_size(taken: _Taken, config: IngestConfig) -> None:
    if len(taken.documents) >= config.min_documents and taken.num_bytes.total() >= config.min_bytes:
        return
    reasons = "".join(f", {count} files skipped: {reason}" for reason, count in sorted(taken.files_skipped.items()))
    raise BadSpecError(
        f"corpus: want at least {config.min_documents} documents with {config.min_bytes} bytes of text, got "
        f"{len(taken.documents)} with {taken.num_bytes.total()}{reasons}; give more documents, or lower "
        f"ingest.min_documents and ingest.min_bytes"
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
