"""The platform's figures are those of its databases and files. (On a platform: tests/e2e/test_guarded_platform.py.)"""

from datetime import timedelta
from pathlib import Path

import pytest
from fastapi.testclient import TestClient
from prometheus_client.parser import text_string_to_metric_families

from infra.exporter import create_app
from infra.lineage import Lineage, now
from infra.settings import Settings
from infra.tracking import Tracker
from tests.support.lifecycle_records import record


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    settings = Settings(home=tmp_path)
    lineage = Lineage(settings.resolved_lineage_url())
    for n, wall_s in enumerate((10.0, 5.0)):
        lineage.commit(record("clean", "clean_corpus", {}, wall_s).model_copy(update={"key": f"{n:064x}"}), [])
    lineage.commit(record("pretrain", "model", {"a": 1.0}, 100.0), [])
    for n, status in enumerate(("finished", "finished", "failed", "running", "running")):
        started_at = now() - timedelta(hours=9)
        ended_at = None if status == "running" else now() - timedelta(hours=n)
        lineage.save_lifecycle(
            f"run-{n}", recipe="tiny", seed=0, status=status, started_at=started_at, ended_at=ended_at
        )
    failed = settings.work_dir / "sft" / "abc" / "failure.json"
    failed.parent.mkdir(parents=True)
    failed.write_text("{}")
    return settings


def figures(settings: Settings) -> dict[tuple[str, ...], float]:
    text = TestClient(create_app(settings)).get("/metrics").raise_for_status().text
    families = text_string_to_metric_families(text)
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_finished_runs_and_their_seconds_are_counted_by_stage_and_failed_keys_too(settings: Settings):
    found = figures(settings)
    assert found["glmflow_stage_runs_total", "clean"] == 2 and found["glmflow_stage_seconds_total", "clean"] == 15
    assert found["glmflow_stage_runs_total", "pretrain"] == 1
    assert found["glmflow_stage_peak_memory_bytes", "pretrain"] == 2**30
    assert found["glmflow_stage_keys_failed", "sft"] == 1


def test_artifacts_and_their_bytes_are_counted_once_each(settings: Settings):
    found = figures(settings)
    assert (found["glmflow_artifacts", "clean_corpus"], found["glmflow_artifact_bytes", "clean_corpus"]) == (1, 10)
    assert found["glmflow_artifacts", "model"] == 1


def test_a_running_run_is_lost_when_nobody_holds_its_journal(settings: Settings):
    tracker = Tracker(settings, "run-3")
    tracker.open_run("run-3")
    found = figures(settings)
    counted = {s: found["glmflow_lifecycles", s] for s in ("finished", "failed", "running", "lost")}
    assert counted == {"finished": 2, "failed": 1, "running": 1, "lost": 1}
    assert found["glmflow_tracker_pending_operations",] == 1
    assert found["glmflow_last_success_age_seconds",] == pytest.approx(0, abs=60)
    tracker.finish()
    assert figures(settings)["glmflow_lifecycles", "lost"] == 2


def test_an_empty_home_has_figures_too(tmp_path: Path):
    found = figures(Settings(home=tmp_path))
    assert found["glmflow_disk_free_bytes",] > 0 and found["glmflow_tracker_pending_operations",] == 0
    assert ("glmflow_last_success_age_seconds",) not in found


def test_the_password_guards_the_figures_unless_they_are_open(settings: Settings):
    guarded = settings.model_copy(update={"auth": Settings(auth="ada:x").auth})
    client = TestClient(create_app(guarded))
    assert client.get("/metrics").status_code == 401 and client.get("/health").status_code == 200
    assert client.get("/metrics", auth=("ada", "x")).status_code == 200
    opened = guarded.model_copy(update={"metrics_open": True})
    assert TestClient(create_app(opened)).get("/metrics").status_code == 200
