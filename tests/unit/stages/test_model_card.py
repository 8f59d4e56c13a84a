"""Laws of the model card."""

import re

from stages.card_facts import DataFacts, ModelFacts, Share
from stages.evidence import RewardModelQuality
from stages.model_card import render_card
from stages.release import ReleaseConfig
from tests.support.evaluated_models import all_evaluated, evidence

CONFIG = {"num_hidden_layers": 4, "hidden_size": 192, "vocab_size": 8192, "max_position_embeddings": 2048}


def facts(name: str, letter: str) -> ModelFacts:
    return ModelFacts(
        name=name, digest=letter * 64, num_bytes=2000, weights_sha256=letter * 64, weights_bytes=1000, num_tensors=3,
        num_elements=5_000_000, dtypes=("F32",), config=CONFIG,
    )  # fmt: skip


def card(reward_model_accuracy: float = 0.7) -> str:
    quality = RewardModelQuality(accuracy=reward_model_accuracy, length_baseline_accuracy=0.4)
    gates = [gate for family in ReleaseConfig().gates for gate in family.judge(evidence(quality))]
    shares = (Share(label="GPL-2.0 | or\nlater", num_documents=3, num_bytes=4567),)
    languages = tuple(Share(label=lang, num_documents=1, num_bytes=1) for lang in ("en", "code", "zh"))
    counts = {"num_tokens": 1234567, "num_documents": 12, "num_bytes": 99}
    return render_card(
        passed=all(gate.passed for gate in gates),
        models=[facts("full precision", "a"), facts("INT8", "b"), facts("INT4", "c")],
        data=DataFacts(
            num_documents=3, num_bytes=4567, licenses=shares, languages=languages, domains=shares, sources=shares,
            num_other_sources=2,
        ),
        tokens={"train": counts, "heldout": counts, "num_documents_set_aside": 7},
        instructions=(("heading", "en", 800),),
        evaluations=all_evaluated(),
        gates=gates,
    )  # fmt: skip


def test_every_part_that_a_reader_needs_is_there():
    text = card()
    for heading in (
        "Files and digests",
        "Architecture and recipe",
        "Data",
        "Measurements",
        "Gates",
        "Limits",
        "Intended use",
        "Use policy",
    ):
        assert f"\n## {heading}\n" in text
    for letter in "abc":
        assert letter * 64 in text
    assert "language: [en, zh]" in text
    assert "| parameters | 5,000,000 |" in text
    assert "1,234,567 tokens" in text
    assert "another 7 only keep their instructions out of training" in text
    assert "| heading | en | 800 |" in text
    assert "| heading/en: accuracy | 0 +- 0.02 | 0.5 +- 0.02 |" in text


def test_every_table_row_has_as_many_cells_as_its_header():
    for block in re.findall(r"(?:^\|.*\n)+", card(), re.MULTILINE):
        widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
        assert len(widths) == 1, block


def test_the_same_release_gives_the_same_card_and_tells_no_date():
    assert card() == card()
    assert not re.search(r"\b20[0-9]{2}-[0-9]{2}", card())


def test_a_failed_gate_is_told_at_the_top_and_among_the_limits():
    text = card(reward_model_accuracy=0.5)
    assert "**Release gates: failed.** This model is a candidate, not a champion." in text
    assert "- reward_model_accuracy failed: want at least 0.65, got 0.5" in text
    assert "**Release gates: passed.**" in card()
