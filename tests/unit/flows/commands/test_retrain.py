"""What `glmflow retrain` prints. (That it retrains: tests/e2e/test_retraining.py.)"""

import argparse
import json
from pathlib import Path

import pytest

from flows.commands import retrain
from infra.decisions import DecisionRow
from infra.lineage import now


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    row = DecisionRow(
        decided_at=now(), lifecycle_id="", recipe="tiny", sources="s" * 64, champion="a" * 64, challenger="",
        outcome="nothing_new", reason="The documents are those of the champion.", decision={}, frozen={},
    )  # fmt: skip
    monkeypatch.setattr(retrain, "_retrain", lambda *_: row)

    class Api:
        def __init__(self, _settings: object) -> None: ...

        def close(self) -> None: ...

    monkeypatch.setattr(retrain, "PrefectApi", Api)


def test_the_decision_is_printed_and_keeping_the_champion_is_no_failure(capsys: pytest.CaptureFixture[str]):
    assert retrain.run(argparse.Namespace(json=False)) == 0
    assert "The documents are those of the champion." in capsys.readouterr().out


def test_a_program_reads_json(capsys: pytest.CaptureFixture[str]):
    retrain.run(argparse.Namespace(json=True))
    said = json.loads(capsys.readouterr().out)
    assert (said["outcome"], said["champion"], said["decision"]) == ("nothing_new", "a" * 64, {})
