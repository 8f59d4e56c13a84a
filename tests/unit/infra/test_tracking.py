"""The tracker writes down everything and waits for nothing."""

import json
from datetime import datetime
from pathlib import Path

import pytest

from infra import tracking
from infra.journal import JournalReader, JournalWriter
from infra.lineage import Lineage, MetricPoint
from infra.settings import Settings
from infra.tracking import ExportedModel, Tracker, artifact_root, flatten, mark_killed, tracking_dir


class NoDelivery:
    """Stands for a delivery that gets nothing done."""

    def __init__(self, command, *, log_path: Path, environment: dict[str, str]) -> None:
        self.log_path, self.environment = log_path, environment

    def wait(self, timeout_s: float) -> bool:
        return False

    def end(self) -> int:
        return -9


@pytest.fixture
def tracker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Tracker:
    monkeypatch.setenv("MLFLOW_RUN_ID", "somebody-else")
    monkeypatch.setattr(tracking, "ChildProcess", NoDelivery)
    tracker = Tracker(Settings(home=tmp_path), "life")
    tracker.start_delivery()
    return tracker


def test_every_call_is_one_line_in_the_journal_and_what_is_not_delivered_is_said(tracker: Tracker, tmp_path: Path):
    parent = tracker.open_run("life", params={"recipe": "demo"})
    child = tracker.open_run("clean", parent=parent, datasets={"corpus": "a" * 64})
    tracker.log(child, [MetricPoint(name="clean/kept", value=0.5, step=7)])
    tracker.log(child, [])
    tracker.close_run(child, "FAILED", {"reason": "disk"})
    model = ExportedModel("model", "model", "b" * 64, 9, {"bits": "32"})
    tracker.register(parent, [model], released=model.digest, is_approved=False)
    tracker.finish()
    lines = [json.loads(line) for line in (tmp_path / "tracking/life.jsonl").read_text().splitlines()]
    assert [(line["op"], line["run"]) for line in lines] == [
        ("open", "life"), ("open", "life/clean"), ("metrics", "life/clean"), ("close", "life/clean"),
        ("register", "life"), ("end", "life"),
    ]  # fmt: skip
    assert lines[2]["points"] == [["clean/kept", 0.5, 7]] and lines[4]["models"][0]["params"] == {"bits": "32"}
    assert tracker.wait(0).startswith("tracking: 6 entries could not be delivered (the tracker was too slow)")
    assert JournalReader(tmp_path / "tracking/life.jsonl").num_pending() == 6


def test_the_delivery_knows_no_foreign_run_and_stays_offline(tracker: Tracker):
    environment = tracker._delivery.environment
    assert "MLFLOW_RUN_ID" not in environment
    assert environment["MLFLOW_DISABLE_TELEMETRY"] == "true"


def test_without_a_delivery_everything_waits_for_the_next_run(tmp_path: Path):
    tracker = Tracker(Settings(home=tmp_path), "life")
    tracker.close_run(tracker.open_run("life"), "KILLED")
    tracker.finish()
    assert tracker.wait(60).startswith("tracking: 3 entries could not be delivered")


def test_nested_settings_become_dotted_short_parameters():
    assert flatten({"a": {"b": 1, "c": [1, 2]}, "d": "x" * 999}) == {"a.b": "1", "a.c": "[1, 2]", "d": "x" * 250}


def test_files_lie_in_home_unless_a_server_keeps_them(tmp_path: Path):
    assert artifact_root(Settings(home=tmp_path)) == (tmp_path / "mlartifacts").as_uri()
    assert artifact_root(Settings(home=tmp_path, tracking_uri="http://tracker:5000")) is None


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


@pytest.mark.slow
def test_a_run_of_another_machine_in_the_same_database_is_left_alone(tmp_path: Path, postgres_database: str):
    settings = Settings(home=tmp_path, lineage_url=postgres_database)
    lineage = Lineage(settings.resolved_lineage_url())
    for name in ("elsewhere", "died"):
        lineage.save_lifecycle(name, recipe="tiny", seed=0, status="running", started_at=datetime(2026, 1, 1))
    JournalWriter(tracking_dir(settings) / "died.jsonl").close()
    mark_killed(lineage, settings)
    assert {row.id: row.status for row in lineage.lifecycles()} == {"elsewhere": "running", "died": "killed"}
