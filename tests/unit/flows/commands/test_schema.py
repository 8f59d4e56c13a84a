"""Every field of a stage is shown with its meaning, range and default."""

import argparse
import json

import pytest

from flows.commands.schema import run
from infra.errors import BadSpecError


def schema_of(stage: str, capsys: pytest.CaptureFixture[str], *, is_json: bool) -> str:
    assert run(argparse.Namespace(stage=stage, json=is_json)) == 0
    return capsys.readouterr().out


def test_a_table_names_nested_fields_with_dots_and_their_ranges(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    text = schema_of("pretrain", capsys, is_json=False)
    for wanted in ("pretrain <- tokens, tokenizer", "model.num_experts", "optimization.learning_rate", "number >0"):
        assert wanted in text
    assert "routed experts a layer" in text


def test_json_is_the_schema_of_config_and_inputs(capsys):
    document = json.loads(schema_of("pack", capsys, is_json=True))
    assert "heldout_ratio" in document["config"]["properties"] and "tokenizer" in document["inputs"]["properties"]


def test_an_unknown_stage_is_refused_with_those_there_are():
    with pytest.raises(BadSpecError, match="stage 'cleen': want one of ingest, clean"):
        run(argparse.Namespace(stage="cleen", json=False))
