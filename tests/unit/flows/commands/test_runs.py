"""Runs are listed newest first, with how they ended."""

import argparse
from datetime import datetime, timedelta
from pathlib import Path

import pytest

from flows.commands.runs import run
from infra.lineage import Lineage
from infra.settings import Settings

START = datetime(2026, 1, 2, 3, 4, 5)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    monkeypatch.setenv("COLUMNS", "200")
    return tmp_path


def test_an_empty_home_says_how_to_make_a_run(capsys: pytest.CaptureFixture[str]):
    assert run(argparse.Namespace(limit=5)) == 0
    assert "`glmflow run` makes one" in capsys.readouterr().out


def test_each_run_is_a_row(capsys: pytest.CaptureFixture[str]):
    lineage = Lineage(Settings().resolved_lineage_url())
    stages = [{"cached": cached, "outputs": {"corpus": f"raw_corpus:{n}"}} for n, cached in enumerate((True, False))]
    for day, status in enumerate(("finished", "stopped")):
        started = START + timedelta(days=day)
        lineage.save_lifecycle(
            f"run-{day}", recipe="demo", seed=day, status=status, started_at=started,
            ended_at=started + timedelta(seconds=75), stages=stages,
        )  # fmt: skip
    run(argparse.Namespace(limit=5))
    rows = [line for line in capsys.readouterr().out.splitlines() if "run-" in line]
    assert "run-1" in rows[0] and "stopped" in rows[0] and "run-0" in rows[1]
    assert "2 (1 cached)" in rows[0] and "1 min 15 s" in rows[0] and "raw_corpus:1" in rows[0]
