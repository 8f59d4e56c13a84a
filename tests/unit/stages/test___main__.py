"""The container's entry point: exit codes and sentences."""

import json
import re
from pathlib import Path

import pytest

import stages.__main__ as entry
from stages import execution
from tests.support.toy_stage import STAGE


@pytest.fixture(autouse=True)
def toy(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path / "home"))
    monkeypatch.setattr(entry, "load_stage", lambda name: STAGE)
    monkeypatch.setattr(execution, "code_digest", lambda modules: "c" * 64)
    monkeypatch.setattr(execution, "environment", lambda modules, threads: {})


def run_with(tmp_path: Path, spec: object) -> int:
    path = tmp_path / "spec.json"
    path.write_text(spec if isinstance(spec, str) else json.dumps(spec))
    return entry.main(["ingest", "--spec", str(path)])


def test_a_finished_stage_prints_its_outputs_and_exits_0(tmp_path, capsys):
    assert run_with(tmp_path, {"config": {"text": "x"}}) == 0
    assert json.loads(capsys.readouterr().out)["corpus"]["kind"] == "raw_corpus"


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ({"config": {"txet": 1}}, r"txet: Extra inputs are not permitted, got '1'"),
        ({"config": {"behaviour": "fly"}}, r"behaviour: Input should be 'write'.*got 'fly'"),
        ({"konfig": {}}, "konfig"),
        ("not json", "whole file: Invalid JSON"),
        ({"inputs": {"sources": {"kind": "model", "digest": "d" * 64, "num_bytes": 1}}}, "source_manifest"),
    ],
)
def test_a_bad_spec_exits_2_and_names_the_field(tmp_path, capsys, spec, message):
    assert run_with(tmp_path, spec) == 2
    captured = capsys.readouterr()
    assert re.search(message, captured.err), captured.err
    assert "Traceback" not in captured.err


def test_a_missing_spec_file_exits_2(tmp_path, capsys):
    assert entry.main(["ingest", "--spec", str(tmp_path / "none.json")]) == 2
    assert "want a readable JSON file" in capsys.readouterr().err


def test_a_stage_that_raises_exits_1_with_its_traceback_in_the_log(tmp_path, capsys):
    assert run_with(tmp_path, {"config": {"behaviour": "raise"}}) == 1
    err = capsys.readouterr().err
    assert "Traceback" in err and err.rstrip().endswith("stage ingest: RuntimeError: the disk is on fire")


def test_the_schema_describes_config_and_inputs(capsys):
    assert entry.main(["ingest", "--schema"]) == 0
    schema = json.loads(capsys.readouterr().out)
    assert schema["config"]["properties"]["text"]["description"] == "what to write"
    assert "sources" in schema["inputs"]["properties"]
