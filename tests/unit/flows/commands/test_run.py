"""`glmflow run` refuses before it starts anything, and says how to go on after a stop."""

import argparse
import json
import signal
from pathlib import Path

import pytest

from flows.cli import build_parser
from flows.commands import run as command
from flows.stop import StopSwitch
from infra.errors import BadSpecError, StopRequestedError
from tests.unit.flows.test_summary import summary


class Api:
    num_open = 0

    def __init__(self, settings: object) -> None:
        Api.num_open += 1

    def close(self) -> None:
        Api.num_open -= 1


@pytest.fixture(autouse=True)
def no_server(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    monkeypatch.setattr(command, "PrefectApi", Api)


def arguments(*words: str) -> argparse.Namespace:
    args = build_parser().parse_args(["run", *words])
    args.asked_at_s = 0.0
    return args


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--set", "pretrain.stepz=1"], "pretrain has no 'stepz'"),
        (["--until", "nowhere"], "--until: want one of ingest"),
        (["--input", "/no/such/folder"], "input /no/such/folder: want an existing file or folder"),
    ],
)
def test_what_is_wrong_is_refused_and_no_server_is_left(words: list[str], message: str):
    with pytest.raises(BadSpecError, match=message):
        command.run(arguments(*words))
    assert Api.num_open == 0


@pytest.mark.parametrize(
    ("error", "number", "code"),
    [
        (KeyboardInterrupt(), signal.SIGINT, 130),
        (StopRequestedError("x"), signal.SIGTERM, 143),
        (StopRequestedError("x"), signal.SIGINT, 130),
    ],
)
def test_a_stop_says_how_to_go_on(monkeypatch, capsys, error: BaseException, number: signal.Signals, code: int):
    def stopped(args: object, recipe: object, settings: object, api: object, stop: StopSwitch) -> None:
        stop.signal = number
        raise error

    monkeypatch.setattr(command, "_run", stopped)
    assert command.run(arguments("tiny")) == code
    assert (
        capsys.readouterr().err == "glmflow: stopped; `glmflow run tiny` with the same arguments goes on from there\n"
    )
    assert Api.num_open == 0


def test_json_prints_one_document_and_nothing_else(monkeypatch, capsys):
    monkeypatch.setattr(command, "_run", lambda *_: summary())
    assert command.run(arguments("--json")) == 0
    assert json.loads(capsys.readouterr().out)["recipe"] == "demo"
    assert command.run(arguments()) == 0
    assert "demo, run run-1" in capsys.readouterr().out
