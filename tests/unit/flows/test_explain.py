"""The tree goes from the artifact down to the source files, each stage once, with what was special about it."""

import io
from pathlib import Path

import pytest
from rich.console import Console

from flows.explain import differences, provenance
from infra.artifacts import ArtifactRef, Model, RawCorpus, SourceManifest, Tokenizer
from infra.errors import BadSpecError
from infra.lineage import Lineage
from infra.stores.local import LocalStore
from stages.sources import Manifest, Source, SourceFile
from tests.support.lifecycle_records import record


def ref(kind: type[ArtifactRef], letter: str) -> ArtifactRef:
    return kind(digest=letter * 64, num_bytes=2048)


@pytest.fixture
def store(tmp_path: Path) -> LocalStore:
    return LocalStore(tmp_path / "store")


@pytest.fixture
def manifest(store: LocalStore, tmp_path: Path) -> SourceManifest:
    files = tuple(SourceFile(path=f"{n}.txt", sha256="e" * 64, num_bytes=10, reader="text") for n in range(25))
    user = Source(name="notes", version="", kind="user", license="user", root="/r", files=files)
    pip = Source(
        name="django", version="5.2", kind="pip", license="BSD", root="/d", archive_sha256="f" * 64, files=files
    )
    Manifest(sources=(user, pip)).write(tmp_path / "manifest")
    return store.put(tmp_path / "manifest", SourceManifest)


@pytest.fixture
def lineage(tmp_path: Path, manifest: SourceManifest) -> Lineage:
    opened = Lineage(f"sqlite:///{tmp_path / 'lineage.db'}")
    corpus, tokenizer, model = ref(RawCorpus, "a"), ref(Tokenizer, "b"), ref(Model, "c")
    made = (
        ("ingest", {"sources": manifest}, {"corpus": corpus}, {"min_bytes": 5}),
        ("tokenizer", {"corpus": corpus}, {"tokenizer": tokenizer}, {}),
        ("pretrain", {"corpus": corpus, "group": {"tokenizer": tokenizer}}, {"model": model}, {}),
    )
    for stage, inputs, outputs, config in made:
        dumped = [
            {k: v if isinstance(v, dict) else v.model_dump() for k, v in fields.items()} for fields in (inputs, outputs)
        ]
        if "group" in dumped[0]:
            dumped[0]["group"] = {k: v.model_dump() for k, v in dumped[0]["group"].items()}
        item = record(stage, "x", {"ingest/documents": 7})
        opened.commit(item.model_copy(update={"inputs": dumped[0], "outputs": dumped[1], "config": config}), [])
    return opened


def printed(tree: object) -> str:
    stream = io.StringIO()
    Console(file=stream, width=400).print(tree)
    return stream.getvalue()


def test_the_tree_reaches_the_source_files_and_shows_each_artifact_once(lineage: Lineage, store: LocalStore):
    text = printed(provenance(ref(Model, "c"), lineage, store))
    assert text.startswith("model:cccccccccccc (2.0 KiB) <- pretrain")
    assert text.count("<- ingest") == 1 and text.count("corpus = raw_corpus:aaaaaaaaaaaa (2.0 KiB): shown above") == 1
    assert "group.tokenizer = tokenizer:bbbbbbbbbbbb" in text
    assert "documents 7" in text and "min_bytes = 5" in text
    assert "pip django 5.2: 25 files, 250 B, BSD, archive sha256 ffffffffffff in /d" in text
    assert "19.txt sha256 eeeeeeeeeeee" in text and "20.txt" not in text and "and 5 more files" in text
    assert "and 23 more files (--all-files shows them)" in text
    everything = printed(provenance(ref(Model, "c"), lineage, store, shows_all_files=True))
    assert everything.count("24.txt sha256 eeeeeeeeeeee") == 2 and "more files" not in everything


def test_an_artifact_that_no_stage_made_is_refused(lineage: Lineage, store: LocalStore):
    with pytest.raises(BadSpecError, match="artifact model:dddddddddddd: want one that a stage made, got none"):
        provenance(ref(Model, "d"), lineage, store)


def test_a_lost_manifest_is_said(lineage: Lineage, tmp_path: Path):
    assert "its manifest is no longer in the store" in printed(
        provenance(ref(RawCorpus, "a"), lineage, LocalStore(tmp_path / "empty"))
    )


def test_differences_are_the_settings_that_are_not_the_default():
    assert differences({"a": 1, "b": {"c": 2, "d": [3]}}, {"a": 1, "b": {"c": 9, "d": [3]}}) == {"b.c": "2"}
