"""Laws of the instruction benchmark."""

from pathlib import Path

import pytest

from stages.answers import Judged
from stages.benchmarks.instructions import InstructionAccuracy
from tests.support.tiny_release import instructions, tiny_subject


def test_known_verdicts_give_known_figures(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    items = instructions(20, "heldout")
    subject.judged = [
        Judged(item, item.check.answer if index < 12 else "no", index < 12, stopped=index < 15)
        for index, item in enumerate(items)
    ]
    found = InstructionAccuracy().measure(subject)
    metrics = found.metrics
    assert metrics["eval/instruction_accuracy"] == pytest.approx(0.6)
    assert metrics["eval/instruction_accuracy/heading/en"] == pytest.approx(0.6)
    assert metrics["eval/instruction_stderr/heading/en"] == pytest.approx((0.6 * 0.4 / 10) ** 0.5)
    assert metrics["eval/instruction_constant/heading/en"] == pytest.approx(0.2)
    assert metrics["eval/instruction_items/arithmetic/zh"] == 10
    assert metrics["eval/answers_stopped"] == pytest.approx(0.75)
    assert sum(found.items["is_correct"].values()) == 12
    assert found.items["answer"]["heldout-19"] == "no"


def test_a_model_that_knows_nothing_is_right_about_nothing(tmp_path: Path):
    found = InstructionAccuracy().measure(tiny_subject(tmp_path))
    assert found.metrics["eval/instruction_accuracy"] == 0
    assert len(found.items["answer"]) == found.metrics["eval/instruction_items"] == 12
