"""A decision comes back as it was written, and its section says every figure."""

from pathlib import Path

from stages.decision_file import DECISION_NAME, DecisionFile, read_decision
from stages.paired_tests import compare_accuracy

COMPARISON = compare_accuracy({"a": 0.0, "b": 1.0}, {"a": 1.0, "b": 1.0})
DECISION = DecisionFile(
    champion="a" * 64, challenger="b" * 64, verdict="undecided", reason="No better.", alpha=0.05,
    comparisons=(COMPARISON,), failed_gates=("int4_cost failed: too dear",), num_documents_left_out=3,
    num_instructions_left_out=4,
)  # fmt: skip


def test_it_comes_back_as_it_was_written(tmp_path: Path):
    (tmp_path / DECISION_NAME).write_text(DECISION.model_dump_json())
    assert read_decision(tmp_path) == DECISION


def test_the_section_says_every_figure():
    text = DECISION.markdown()
    assert "| instruction accuracy | 0.5000 | 1.0000 | 2 | 1 | 0 | 1 |" in text
    assert "Challenger `bbbbbbbbbbbb` against champion `aaaaaaaaaaaa`: **undecided**. No better." in text
    assert "3 documents, 4 instructions" in text and "- int4_cost failed: too dear" in text
