"""Laws of ingest: stable ids, even budgets, odd files counted, bad input refused."""

import json
import shutil
from pathlib import Path

import pytest
from pydantic import ValidationError

from infra.artifacts import SourceManifest, file_sha256
from infra.errors import BadSpecError, RetryableError
from stages.ingest import STAGE, IngestConfig, IngestInputs
from stages.records import Document, read_corpus
from stages.sources import Manifest, Source, SourceFile, scan_paths
from tests.support.corpora import StageBench

TEXT = "A document of a user that says something of its own, number {0}. " * 20
SMALL = IngestConfig(min_documents=1, min_bytes=0)


def user_folder(root: Path, count: int = 25) -> Path:
    root.mkdir(parents=True)
    for i in range(count):
        (root / f"{i:03}.txt").write_text(TEXT.format(i))
    return root


class Ingested(StageBench):
    """A bench that ingests user paths or a manifest."""

    def ingest(self, *paths: Path, config: IngestConfig = SMALL, manifest: Manifest | None = None) -> list[Document]:
        directory = self.root / "manifest"
        shutil.rmtree(directory, ignore_errors=True)
        (manifest or scan_paths(paths)).write(directory)
        inputs = IngestInputs(sources=self.store.put(directory, SourceManifest))
        self.output = self.run(STAGE, config, inputs).corpus
        return list(read_corpus(self.store.get(self.output)))

    @property
    def report(self) -> dict:
        return json.loads((self.store.get(self.output) / "report.json").read_text())


@pytest.fixture
def bench(tmp_path: Path) -> Ingested:
    return Ingested(tmp_path / "bench")


def test_two_hundred_small_text_files_are_two_hundred_documents(bench: Ingested, tmp_path: Path):
    documents = bench.ingest(user_folder(tmp_path / "mine", 200), config=IngestConfig())
    assert sorted(d.text for d in documents) == sorted(TEXT.format(i) for i in range(200))
    assert {(d.source, d.license, d.lang, d.domain) for d in documents} == {("mine", "user", "und", "user")}
    assert [d.id for d in documents] == sorted({d.id for d in documents})
    assert bench.metrics["ingest/documents"] == bench.report["documents"] == 200


def test_the_same_folder_elsewhere_gives_the_same_bytes(bench: Ingested, tmp_path: Path):
    folder = user_folder(tmp_path / "x/mine")
    bench.ingest(folder)
    first = bench.output
    shutil.move(folder, tmp_path / "mine")
    bench.ingest(tmp_path / "mine")
    assert bench.output == first


def test_one_changed_file_changes_only_its_own_document(bench: Ingested, tmp_path: Path):
    folder = user_folder(tmp_path / "mine")
    before = bench.ingest(folder)
    (folder / "007.txt").write_text("Something else that is long enough.")
    after = bench.ingest(folder)
    assert len({d.id for d in before} - {d.id for d in after}) == 1
    assert len({d.id for d in after} - {d.id for d in before}) == 1


def test_odd_files_are_skipped_named_and_counted(bench: Ingested, tmp_path: Path, capsys):
    folder = user_folder(tmp_path / "mine")
    odd = {
        "empty.txt": b"",
        "binary.md": b"\x7fELF\0\0",
        "latin.txt": b"caf\xe9",
        "cut.txt.gz": b"\x1f\x8b\x08",
        "no.parquet": b"text",
        "none.json": b"[]",
    }
    for name, data in odd.items():
        (folder / name).write_bytes(data)
    assert len(bench.ingest(folder)) == 25
    skipped = ("binary_file", "cannot_be_decompressed", "empty_file", "no_documents", "not_parquet", "not_utf8")
    reasons = dict.fromkeys(skipped, 1)
    assert bench.report["files_skipped"] == reasons
    assert bench.report["files_in_manifest"] == 25 + sum(reasons.values())
    assert {n: v for n, v in bench.metrics.items() if "skipped" in n} == {
        f"ingest/files_skipped/{reason}": count for reason, count in reasons.items()
    }
    warnings = [line for line in capsys.readouterr().out.splitlines() if line.startswith("warning: ")]
    assert len(warnings) == len(odd)
    assert f"warning: {folder}/latin.txt: skipped, not_utf8; save it as UTF-8, or remove it" in warnings


def test_a_broken_row_is_refused_with_its_file_and_line(bench: Ingested, tmp_path: Path):
    folder = user_folder(tmp_path / "mine")
    (folder / "rows.jsonl").write_text('{"text": "x"}\n{"body": "x"}\n')
    with pytest.raises(BadSpecError, match=r"rows.jsonl line 2: want an object with a 'text' field"):
        bench.ingest(folder)


@pytest.mark.parametrize(
    ("texts", "got"),
    [
        (["short"] * 3, "got 3 with 15;"),
        (["x" * 2_000_000], "got 500 with"),
        ([" \n\n "] * 30, "got 0 with 0;"),
        ([""] * 30, "got 0 with 0, 30 files skipped: empty_file;"),
    ],
)
def test_a_corpus_that_is_too_small_is_refused_with_the_figures(bench: Ingested, tmp_path: Path, texts, got):
    (tmp_path / "mine").mkdir()
    for i, text in enumerate(texts):
        (tmp_path / f"mine/{i}.txt").write_text(text)
    config = IngestConfig(min_documents=20, min_bytes=3_000_000)
    message = rf"corpus: want at least 20 documents with 3000000 bytes of text, {got}.*give more documents, or lower"
    with pytest.raises(BadSpecError, match=message):
        bench.ingest(tmp_path / "mine", config=config)


def test_a_file_that_changed_since_the_scan_is_worth_a_retry(bench: Ingested, tmp_path: Path):
    folder = user_folder(tmp_path / "mine")
    manifest = scan_paths([folder])
    (folder / "003.txt").write_text("changed")
    with pytest.raises(RetryableError, match=r"003.txt: want the file that was scanned, got a changed .*; run again"):
        bench.ingest(manifest=manifest)
    (folder / "003.txt").unlink()
    with pytest.raises(RetryableError, match=r"003.txt: want the file that was scanned, got .* missing one"):
        bench.ingest(manifest=manifest)


def test_the_row_says_its_own_source_license_and_language(bench: Ingested, tmp_path: Path):
    row = {"text": "x = 1", "license": "MIT", "source": "elsewhere", "lang": "code", "title": "T"}
    (tmp_path / "a.jsonl").write_text(json.dumps(row))
    (document,) = bench.ingest(tmp_path / "a.jsonl")
    assert (document.license, document.source, document.lang) == ("MIT", "elsewhere", "code")
    assert document.meta == {"title": "T"}


def reviews(root: Path, count: int) -> Manifest:
    files = []
    for label in ("negative", "positive"):
        path = root / f"{label}.txt"
        path.write_text("\n".join(f"{label} review number {i}" for i in range(count)))
        files.append(
            SourceFile(path=path.name, sha256=file_sha256(path), num_bytes=1, reader=f"review_{label}")  # type: ignore
        )
    source = Source(name="r", version="1", kind="pip", license="MIT", root=str(root), files=tuple(files))
    return Manifest(sources=(source,))


def test_a_budget_takes_an_even_sample_of_the_labels(bench: Ingested, tmp_path: Path):
    manifest = reviews(tmp_path, 1000)
    config = SMALL.model_copy(update={"max_domain_bytes": {"review": 10_000}})
    labels = [d.meta["label"] for d in bench.ingest(manifest=manifest, config=config)]
    assert 0.4 < labels.count("positive") / len(labels) < 0.6
    assert bench.report["documents_left_out"] == {"over_budget": 2000 - len(labels)}
    assert 10_000 <= bench.report["bytes_by_domain"]["review"] < 10_100


def test_a_larger_budget_keeps_what_a_smaller_one_took(bench: Ingested, tmp_path: Path):
    manifest = reviews(tmp_path, 300)
    small, large = (
        {d.id for d in bench.ingest(manifest=manifest, config=SMALL.model_copy(update={"max_domain_bytes": budget}))}
        for budget in ({"review": 2_000}, {"review": 9_000})
    )
    assert small < large


def test_a_domain_whose_budget_is_used_up_is_not_read_further(bench: Ingested, tmp_path: Path):
    config = SMALL.model_copy(update={"max_domain_bytes": {"user": 5_000}})
    documents = bench.ingest(user_folder(tmp_path / "mine"), config=config)
    assert len(documents) + bench.report["files_over_budget"] == 25
    assert 5_000 <= sum(len(d.text) for d in documents) < 5_000 + len(TEXT)


def test_a_source_given_twice_counts_once(bench: Ingested, tmp_path: Path):
    folder = user_folder(tmp_path / "mine")
    assert len(bench.ingest(folder, folder)) == 25
    assert bench.report["documents_left_out"] == {"repeated": 25}


@pytest.mark.parametrize("config", [{"min_documents": 0}, {"max_domain_bytes": {"doc": -1}}, {"max_bytes": 1}])
def test_a_config_out_of_range_is_refused(config):
    with pytest.raises(ValidationError):
        IngestConfig(**config)
