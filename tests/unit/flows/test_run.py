"""How a run ends is what it was ended by. (A whole run: tests/integration/test_lifecycle.py.)"""

from datetime import datetime
from pathlib import Path

import pytest

from flows.run import _status, mark_killed
from infra.errors import StageFailedError, StopRequestedError
from infra.journal import JournalWriter
from infra.lineage import Lineage
from infra.settings import Settings
from infra.tracking import tracking_dir


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (None, "finished"),
        (StageFailedError("x"), "failed"),
        (ValueError("a bug"), "failed"),
        (StopRequestedError("x"), "stopped"),
        (KeyboardInterrupt(), "stopped"),
    ],
)
def test_a_stop_is_no_failure(error: BaseException | None, status: str):
    assert _status(error) == status


def test_a_run_whose_process_has_gone_is_marked_killed_and_a_running_one_is_not(tmp_path: Path):
    settings = Settings(home=tmp_path)
    lineage = Lineage(settings.resolved_lineage_url())
    for name, status in (("lives", "running"), ("died", "running"), ("delivered", "running"), ("done", "finished")):
        lineage.save_lifecycle(name, recipe="tiny", seed=0, status=status, started_at=datetime(2026, 1, 1))
    held = JournalWriter(tracking_dir(settings) / "lives.jsonl")
    JournalWriter(tracking_dir(settings) / "died.jsonl").close()
    mark_killed(lineage, settings)
    assert {row.id: row.status for row in lineage.lifecycles()} == {
        "lives": "running", "died": "killed", "delivered": "killed", "done": "finished",
    }  # fmt: skip
    held.close()
