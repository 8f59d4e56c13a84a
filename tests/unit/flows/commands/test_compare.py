"""The command prints the comparison of two runs, and refuses what is none."""

import argparse
from pathlib import Path

import pytest

from flows.commands.compare import run
from infra.errors import BadSpecError
from infra.lineage import Lineage
from infra.settings import Settings
from tests.support.lifecycle_records import STARTED_AT, record


def test_a_run_compared_with_itself_has_the_same_artifacts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    lineage = Lineage(Settings().resolved_lineage_url())
    with pytest.raises(BadSpecError, match="run 'latest': want one run, got 0 of 0"):
        run(argparse.Namespace(first="latest", second="latest", all_metrics=False))
    made = record("dedup", "deduped_corpus", {"dedup/docs_in": 5.0})
    lineage.commit(made, [])
    lineage.save_lifecycle(
        "run-0", recipe="tiny", seed=0, status="finished", started_at=STARTED_AT, ended_at=None,
        stages=[{"label": "dedup", "key": made.key}],
    )  # fmt: skip
    assert run(argparse.Namespace(first="latest", second="run-0", all_metrics=False)) == 0
    assert capsys.readouterr().out.count("same artifact") == 2
