"""A packed model that is not small fails."""

from tests.support.evaluated_models import WEIGHT_BYTES, evidence, failed


def test_each_packed_model_has_its_bound():
    assert failed(evidence(weight_bytes=WEIGHT_BYTES | {"int8": 551})) == {"int8_file_size"}
    assert failed(evidence(weight_bytes=WEIGHT_BYTES | {"int4": 451})) == {"int4_file_size"}
    assert failed(evidence(weight_bytes={"ppo": 1000, "int8": 550, "int4": 450})) == set()
