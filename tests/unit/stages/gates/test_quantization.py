"""Each limit of quantization has its gate."""

import pytest

from tests.support.evaluated_models import evidence, failed, with_metrics


@pytest.mark.parametrize(
    ("name", "changes", "gate"),
    [
        ("int8", {"perplexity": 33.17}, "int8_perplexity_cost"),
        ("int4", {"perplexity": 35.7}, "int4_perplexity_cost"),
        ("int8", {"instruction_accuracy": 0.56}, "int8_accuracy_drop"),
        ("int4", {"instruction_accuracy": 0.49}, "int4_accuracy_drop"),
    ],
)
def test_each_bound_has_its_gate(name: str, changes: dict[str, float], gate: str):
    assert failed(evidence(**{name: with_metrics(name, **changes)})) == {gate}
