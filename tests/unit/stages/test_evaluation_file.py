"""Laws of evaluation files."""

from pathlib import Path

import pytest

from infra.errors import BadSpecError
from stages.evaluation_file import EVALUATION_NAME, read_evaluation, write_evaluation, write_json
from tests.support.evaluated_models import evaluated


def test_what_is_written_is_read_back(tmp_path: Path):
    write_evaluation(tmp_path / "a", evaluated("sft"))
    assert read_evaluation(tmp_path / "a") == evaluated("sft")


def test_the_order_of_keys_does_not_change_the_bytes(tmp_path: Path):
    write_json(tmp_path / "a", {"b": 1, "a": {"d": 2, "c": "\u4f60"}})
    write_json(tmp_path / "b", {"a": {"c": "\u4f60", "d": 2}, "b": 1})
    assert (tmp_path / "a").read_bytes() == (tmp_path / "b").read_bytes()


def test_an_unknown_field_and_a_missing_metric_are_refused(tmp_path: Path):
    write_evaluation(tmp_path / "a", evaluated("sft"))
    path = tmp_path / "a" / EVALUATION_NAME
    path.write_text(path.read_text().replace('"kind"', '"species"'))
    with pytest.raises(ValueError, match="species"):
        read_evaluation(tmp_path / "a")
    with pytest.raises(BadSpecError, match="want the metric 'eval/speed', got none"):
        evaluated("sft").metric("eval/speed")
