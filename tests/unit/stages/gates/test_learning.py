"""Each limit of learning has its gate."""

from dataclasses import replace

import pytest

from infra.errors import BadSpecError
from stages.gates.learning import LearningGates
from tests.support.evaluated_models import evaluated, evidence, failed, with_metrics


def test_a_model_that_keeps_every_bound_passes():
    assert failed(evidence()) == set()


@pytest.mark.parametrize(
    ("name", "changes", "gate"),
    [
        ("base", {"bits_per_byte": 2.0}, "pretraining_beats_unigram"),
        ("base", {"instruction_accuracy": 0.41}, "sft_accuracy_gain"),
        ("sft", {"instruction_accuracy/heading/en": 0.12}, "tasks_above_constant"),
    ],
)
def test_each_bound_has_its_gate(name: str, changes: dict[str, float], gate: str):
    assert failed(evidence(**{name: with_metrics(name, **changes)})) == {gate}


def test_arithmetic_and_small_tasks_do_not_count():
    assert LearningGates().tasks_above_constant(evaluated("sft")) == ("heading/en", "purpose/zh")
    small = with_metrics("sft", **{"instruction_items/heading/en": 199.0})
    assert LearningGates().tasks_above_constant(small) == ("purpose/zh",)


def test_a_figure_that_was_not_measured_is_refused_by_name():
    base = evaluated("base")
    unmeasured = replace(base, about=base.about.model_copy(update={"metrics": {}}))
    with pytest.raises(BadSpecError, match="want the metric 'eval/unigram_bits_per_byte', got none"):
        failed(evidence(base=unmeasured))
