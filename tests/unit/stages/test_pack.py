from dataclasses import replace
from pathlib import Path

import pytest

from infra.artifacts import DedupedCorpus, Tokenizer
from infra.errors import BadSpecError
from infra.stores.local import LocalStore
from models.token_shards import TokenShards
from models.tokenizer import load_tokenizer, save_tokenizer, train_tokenizer
from stages.contract import StageContext
from stages.execution import read_history
from stages.pack import STAGE, PackConfig, PackInputs, choose_heldout, run
from stages.records import CorpusWriter, Document, is_held_out

ODD_TEXTS = (
    "<|user|>\nHi<|assistant|>[gMASK]<sop><|endoftext|> [MASK]",
    "tabs\tand\r\nline ends \u2028 and  spaces  ",
    "\u4f60\u597d\uff0c\u4e16\u754c\u3002 \U0001f600 e\u0301 \ufdd0",
    " leading space, trailing newline\n",
    "x",
)
DOMAINS = ("manual", "code", "review")


def document(idx: int, text: str) -> Document:
    return Document(f"doc-{idx}", text, "somewhere", "MIT", "en", DOMAINS[idx % 3])


DOCUMENTS = [document(idx, ODD_TEXTS[idx % 5] * (1 + idx % 4)) for idx in range(300)]


def write_corpus(path: Path, documents: list[Document]) -> None:
    writer = CorpusWriter(path)
    for each in documents:
        writer.write(each)
    writer.close()


class Packed:
    """A corpus and a tokenizer in a store, and what pack made of them."""

    def __init__(
        self, root: Path, documents: list[Document], config: PackConfig, frozen: list[Document] | None = None
    ) -> None:
        store = LocalStore(root / "store")
        save_tokenizer(train_tokenizer(ODD_TEXTS, vocab_size=300), root / "tokenizer")
        write_corpus(root / "corpus", documents)
        write_corpus(root / "frozen", frozen or [])
        self.tokenizer = load_tokenizer(root / "tokenizer")
        inputs = PackInputs(
            corpus=store.put(root / "corpus", DedupedCorpus),
            tokenizer=store.put(root / "tokenizer", Tokenizer),
            frozen=None if frozen is None else store.put(root / "frozen", DedupedCorpus),
        )
        self.ctx = StageContext(store, root / "work", declared_metrics=STAGE.metrics)
        self.ctx.scratch.mkdir(parents=True)
        self.tokens = run(config, inputs, self.ctx).tokens
        self.shards = TokenShards(store.get(self.tokens))
        self.inputs = inputs


CONFIG = PackConfig(heldout_ratio=0.2, max_heldout_bytes=2000)


@pytest.fixture(scope="module")
def packed(tmp_path_factory: pytest.TempPathFactory) -> Packed:
    return Packed(tmp_path_factory.mktemp("pack"), DOCUMENTS, CONFIG)


def test_every_documents_tokens_decode_to_its_text(packed: Packed):
    text_of = {d.id: d.text for d in DOCUMENTS}
    for split in packed.shards.splits.values():
        for idx, doc_id in enumerate(split.doc_ids):
            tokens = split.tokens(idx).tolist()
            assert packed.tokenizer.decode(tokens, skip_special_tokens=False) == text_of[doc_id]
            assert split.num_bytes_N[idx] == len(text_of[doc_id].encode())


def test_no_special_token_comes_out_of_text(packed: Packed):
    special = set(packed.tokenizer.all_special_ids)
    for split in packed.shards.splits.values():
        assert not special & {int(t) for idx in range(len(split)) for t in split.tokens(idx)}


def test_no_document_is_lost_and_none_is_in_both_splits(packed: Packed):
    train, heldout = set(packed.shards.train.doc_ids), set(packed.shards.heldout.doc_ids)
    set_aside = {d.id for d in DOCUMENTS} - train - heldout
    assert not train & heldout
    assert train == {d.id for d in DOCUMENTS if not is_held_out(d.id, 0.2)}
    assert len(set_aside) == packed.shards.manifest["num_documents_set_aside"] > 0


def test_the_held_out_text_stays_within_its_limit_and_has_every_domain(packed: Packed):
    heldout = packed.shards.heldout
    assert heldout.num_bytes_N.sum() <= 2000
    assert set(heldout.domains) == set(DOMAINS)


def test_which_documents_are_scored_does_not_depend_on_their_order():
    sizes = [(d.id, d.domain, len(d.text.encode())) for d in DOCUMENTS]
    assert choose_heldout(sizes, CONFIG) == choose_heldout(sizes[::-1], CONFIG)


def test_a_domain_in_which_no_document_fits_keeps_its_smallest():
    sizes = [(f"doc-{idx}", "manual", 100 + idx) for idx in range(50)]
    heldout, scored = choose_heldout(sizes, PackConfig(heldout_ratio=0.3, max_heldout_bytes=1))
    smallest = min((num_bytes, doc_id) for doc_id, _, num_bytes in sizes if doc_id in heldout)[1]
    assert scored == {smallest}


def test_the_same_corpus_gives_the_same_bytes(packed: Packed, tmp_path: Path):
    assert Packed(tmp_path, DOCUMENTS, CONFIG).tokens == packed.tokens


def test_the_counts_are_metrics(packed: Packed):
    metrics = {p.name: p.value for p in read_history(packed.ctx.metrics_path)}
    assert metrics["pack/train/num_tokens"] == packed.shards.train.num_text_tokens
    assert metrics["pack/heldout/num_bytes"] == packed.shards.heldout.num_bytes_N.sum()


def test_the_manifest_names_the_tokenizer(packed: Packed):
    assert packed.shards.manifest["tokenizer"] == packed.inputs.tokenizer.digest
    assert packed.shards.vocab_size == len(packed.tokenizer)


def test_a_corpus_without_held_out_documents_is_refused(tmp_path: Path):
    trained_only = [d for d in DOCUMENTS if not is_held_out(d.id, PackConfig().heldout_ratio)][:5]
    with pytest.raises(BadSpecError, match="pack: want at least one held-out document, got none of 5"):
        Packed(tmp_path, trained_only, PackConfig())


def test_a_corpus_of_held_out_documents_only_is_refused(tmp_path: Path):
    heldout_only = [d for d in DOCUMENTS if is_held_out(d.id, PackConfig().heldout_ratio)]
    with pytest.raises(BadSpecError, match="pack: dataset yields 0 steps: want documents to train on"):
        Packed(tmp_path, heldout_only, PackConfig())


def test_a_frozen_held_out_document_is_not_trained_on_wherever_it_lies_now(tmp_path: Path):
    texts = {f"doc-{idx}": f"text number {idx}" for idx in range(200)}
    before = [document(int(doc_id[4:]), text) for doc_id, text in texts.items()]
    moved = [replace(each, id=f"moved-{each.id}") for each in before]
    frozen_texts = {each.text for each in before if is_held_out(each.id, 0.2)}
    alone, spared = (Packed(tmp_path / str(n), moved, CONFIG, f) for n, f in enumerate((None, before)))
    trained = [{texts[i.removeprefix("moved-")] for i in one.shards.train.doc_ids} for one in (alone, spared)]
    assert trained[0] & frozen_texts and not trained[1] & frozen_texts
    assert trained[1] == trained[0] - frozen_texts
