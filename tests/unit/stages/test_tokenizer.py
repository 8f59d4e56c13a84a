"""Laws of the tokenizer stage."""

from pathlib import Path

import pytest
from pydantic import ValidationError

from infra.artifacts import DedupedCorpus
from models.tokenizer import SPECIAL_TOKENS, load_tokenizer
from stages.tokenizer import STAGE, TokenizerConfig, TokenizerInputs
from tests.support.corpora import StageBench, mixed_documents

CONFIG = TokenizerConfig(vocab_size=400)


@pytest.fixture
def bench(tmp_path: Path) -> StageBench:
    return StageBench(tmp_path)


def inputs_of(bench: StageBench, documents) -> TokenizerInputs:
    return TokenizerInputs(corpus=bench.put_corpus(documents, DedupedCorpus))


def test_the_tokenizer_has_the_asked_size_and_decodes_what_it_encodes(bench: StageBench):
    output = bench.run(STAGE, CONFIG, inputs_of(bench, mixed_documents(30)))
    tokenizer = load_tokenizer(bench.store.get(output.tokenizer))
    assert len(tokenizer) == 400 == bench.metrics["tokenizer/vocab_size"]
    assert tokenizer.convert_tokens_to_ids(list(SPECIAL_TOKENS)) == list(range(len(SPECIAL_TOKENS)))
    for document in mixed_documents(3):
        assert tokenizer.decode(tokenizer.encode(document.text, add_special_tokens=False)) == document.text


def test_the_order_of_documents_does_not_matter_and_the_bytes_are_the_same(bench: StageBench):
    documents = mixed_documents(30)
    config = CONFIG.model_copy(update={"max_train_bytes": 3_000})
    first = bench.run(STAGE, config, inputs_of(bench, documents))
    assert 3_000 <= bench.metrics["tokenizer/train_bytes"] < 3_500
    assert bench.run(STAGE, config, inputs_of(bench, documents[::-1])) == first


def test_bytes_per_token_are_measured_for_each_language(bench: StageBench):
    documents = [d for d in mixed_documents(30) if d.lang == "code"]
    bench.run(STAGE, CONFIG, inputs_of(bench, documents))
    assert bench.metrics["tokenizer/bytes_per_token/code"] == bench.metrics["tokenizer/bytes_per_token"] > 1


def test_a_small_corpus_gives_a_smaller_vocabulary_and_says_so(bench: StageBench, capsys):
    bench.run(STAGE, TokenizerConfig(), inputs_of(bench, mixed_documents(1)))
    size = bench.metrics["tokenizer/vocab_size"]
    assert 266 < size < 8192
    assert f"vocabulary of {size:.0f} entries instead of 8192" in capsys.readouterr().out


def test_a_vocabulary_without_room_for_the_bytes_is_refused():
    with pytest.raises(ValidationError, match="greater than or equal to 266"):
        TokenizerConfig(vocab_size=265)
