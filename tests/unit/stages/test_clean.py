"""Laws of clean: in = kept + rejected, every reason counted, normalising twice changes nothing."""

import json
import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from infra.artifacts import RawCorpus
from infra.errors import BadSpecError
from stages.clean import STAGE, CleanConfig, CleanInputs, normalise
from stages.filters.length import LengthFilter
from stages.records import read_corpus
from tests.support.corpora import StageBench, document, mixed_documents

ODD = st.sampled_from("a b\t\n\r\x0b\x0c\x85\u2028\u200b\u0301e\u3000\xa0\0\ufeff中ａ\u1100\u1161")
TEXT = st.text(ODD | st.characters(exclude_categories=("Cs",)))


@settings(deadline=None)
@given(text=TEXT)
def test_normalising_twice_changes_nothing(text):
    once = normalise(text)
    assert normalise(once) == once
    assert unicodedata.is_normalized("NFC", once)


@settings(deadline=None)
@given(text=TEXT)
def test_normalising_loses_no_visible_character(text):
    def visible(string: str) -> str:
        return "".join(c for c in unicodedata.normalize("NFC", string) if c.isprintable() and not c.isspace())

    assert visible(normalise(text)) == visible("".join(c for c in text if c.isprintable() or c.isspace()))


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("a\r\nb\rc", "a\nb\nc"),
        ("one\u2028two\x0cthree", "one\ntwo\nthree"),
        ("a  \n\n\n\n\u3000\nb\t", "a\n\nb"),
        ("zero\u200bwidth\ufeff\0", "zerowidth"),
        ("e\u200b\u0301", "\xe9"),
        ("  indented\n    more", "  indented\n    more"),
    ],
)
def test_normal_form_by_example(text, wanted):
    assert normalise(text) == wanted


@pytest.fixture
def bench(tmp_path: Path) -> StageBench:
    return StageBench(tmp_path)


def test_documents_in_are_kept_or_rejected_with_a_reason(bench: StageBench):
    good = mixed_documents(20)
    bad = [
        document("too short"),
        document("1234567890 " * 30),
        document("x" * 900 + " words that are long enough"),
        document("Der Ausschuss hat den Bericht heute zum zweiten Mal gelesen und eine Sitzung verlangt. " * 2),
        document("The same line once more.\n" * 40),
    ]
    raw = bench.put_corpus([*good, *bad], RawCorpus)
    corpus = bench.run(STAGE, CleanConfig(), CleanInputs(corpus=raw)).corpus
    report = json.loads((bench.store.get(corpus) / "report.json").read_text())
    assert report["documents_in"] == 65 == report["documents_kept"] + sum(report["rejected"].values())
    assert report["rejected"] == {
        "fewer_than_min_bytes": 1,
        "fewer_than_min_letters": 1,
        "language_not_wanted": 1,
        "longer_than_max_unbroken": 1,
        "more_than_max_duplicate_lines": 1,
    }
    assert report["first_rejected_document"]["fewer_than_min_bytes"] == bad[0].id
    assert report["kept_by_language"] == {"code": 20, "en": 20, "zh": 20}
    assert bench.metrics["clean/docs_in"] == 65
    assert {n.rsplit("/", 1)[-1]: v for n, v in bench.metrics.items() if "rejected" in n} == report["rejected"]


def test_kept_documents_stay_in_order_and_keep_everything_but_text_and_language(bench: StageBench):
    documents = mixed_documents(10)
    raw = bench.put_corpus(documents, RawCorpus)
    kept = list(read_corpus(bench.store.get(bench.run(STAGE, CleanConfig(), CleanInputs(corpus=raw)).corpus)))
    assert [(d.id, d.source, d.license, d.domain, d.meta) for d in kept] == [
        (d.id, d.source, d.license, d.domain, d.meta) for d in documents
    ]
    assert [d.text for d in kept] == [normalise(d.text) for d in documents]


def test_the_same_documents_give_the_same_bytes(bench: StageBench):
    inputs = CleanInputs(corpus=bench.put_corpus(mixed_documents(5), RawCorpus))
    assert bench.run(STAGE, CleanConfig(), inputs) == bench.run(STAGE, CleanConfig(), inputs)


def test_a_corpus_of_which_nothing_is_left_is_refused(bench: StageBench):
    raw = bench.put_corpus([document("tiny"), document("small")], RawCorpus)
    with pytest.raises(BadSpecError, match=r"want at least one document that passes .* \(fewer_than_min_bytes: 2\)"):
        bench.run(STAGE, CleanConfig(), CleanInputs(corpus=raw))


def test_only_the_filters_of_the_config_judge(bench: StageBench):
    raw = bench.put_corpus([document("tiny")], RawCorpus)
    config = CleanConfig(filters=(LengthFilter(min_bytes=1),))
    assert bench.run(STAGE, config, CleanInputs(corpus=raw)).corpus
    assert bench.metrics["clean/docs_kept"] == 1
