"""`glmflow status` fails unless everything runs."""

import argparse
from datetime import UTC, datetime
from pathlib import Path

import pytest

from flows.commands import status
from flows.platform import ServiceStatus

UP = ServiceStatus(
    "prefect", "running", "http://127.0.0.1:4200", datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC), 77, 2 << 20
)


@pytest.mark.parametrize(("other", "code"), [("running", 0), ("starting", 1), ("down", 1)])
def test_the_exit_code_is_that_of_the_worst(monkeypatch, capsys, tmp_path: Path, other: str, code: int):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    monkeypatch.setattr(status.Platform, "status", lambda _self: [UP, ServiceStatus("worker", other, "x")])
    assert status.run(argparse.Namespace()) == code
    captured = capsys.readouterr()
    for wanted in ("prefect", "http://127.0.0.1:4200", "2026-01-02 03:04:05", "77", "2.0 MiB", other):
        assert wanted in captured.out
    assert ("`glmflow up` starts what is missing" in captured.err) == (code == 1)
