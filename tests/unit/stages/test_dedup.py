"""Laws of dedup: every removed document has a kept twin, nothing else is removed."""

import json
from pathlib import Path

import pytest

from infra.artifacts import CleanCorpus
from stages.dedup import STAGE, DedupConfig, DedupInputs
from stages.records import Document, read_corpus
from tests.support.corpora import StageBench, document, mixed_documents

LONG = " ".join(f"word{i}" for i in range(100))


class Deduped(StageBench):
    def dedup(self, documents: list[Document], config: DedupConfig | None = None) -> list[Document]:
        inputs = DedupInputs(corpus=self.put_corpus(documents, CleanCorpus))
        self.corpus = self.run(STAGE, config or DedupConfig(), inputs).corpus
        return list(read_corpus(self.store.get(self.corpus)))

    @property
    def report(self) -> dict:
        return json.loads((self.store.get(self.corpus) / "report.json").read_text())


@pytest.fixture
def bench(tmp_path: Path) -> Deduped:
    return Deduped(tmp_path)


def test_documents_that_differ_all_stay_in_order(bench: Deduped):
    documents = [d for d in mixed_documents(12) if d.domain == "review"]
    assert bench.dedup(documents, DedupConfig(min_jaccard=1.0)) == documents


def test_copies_that_differ_in_case_and_space_are_exact_duplicates(bench: Deduped):
    copies = [document(text, id=str(i)) for i, text in enumerate((LONG, LONG.upper(), LONG.replace(" ", " \n ")))]
    assert bench.dedup(copies) == copies[:1]
    assert bench.report["kept_twin"] == {"1": "0", "2": "0"}
    assert bench.metrics["dedup/exact_removed"] == 2


def test_short_texts_that_differ_are_never_duplicates(bench: Deduped):
    documents = [document(text, id=text) for text in ("a b", "c d", "好", "")]
    assert bench.dedup(documents) == documents


def test_every_removed_document_has_a_kept_twin_and_the_counts_add_up(bench: Deduped):
    near = LONG.replace("word50", "other")
    texts = [LONG, near, near.upper(), LONG + " and", "something else " + " ".join(map(str, range(90))), LONG]
    documents = [document(text, id=str(i)) for i, text in enumerate(texts)]
    kept = {d.id for d in bench.dedup(documents)}
    twins = bench.report["kept_twin"]
    assert kept | twins.keys() == {d.id for d in documents}
    assert set(twins.values()) <= kept
    assert not kept & twins.keys()
    assert len(kept) == 2
    metrics = bench.metrics
    assert metrics["dedup/docs_in"] == 6 == metrics["dedup/docs_kept"] + len(twins)
    assert metrics["dedup/exact_removed"] + metrics["dedup/near_removed"] == len(twins)


def test_a_deduplicated_corpus_has_nothing_left_to_remove(bench: Deduped):
    documents = mixed_documents(15)
    once = bench.dedup(documents)
    assert bench.dedup(once) == once


def test_the_same_documents_give_the_same_bytes(bench: Deduped):
    bench.dedup(mixed_documents(15))
    first = bench.corpus
    bench.dedup(mixed_documents(15))
    assert bench.corpus == first
