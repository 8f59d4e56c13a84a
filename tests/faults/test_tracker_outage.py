"""A tracker that is down costs a run nothing and loses nothing: what it missed arrives with the next run."""

import socket
import time
from pathlib import Path

from infra.lineage import MetricPoint
from infra.registry import connect, resolve
from infra.settings import Settings
from infra.tracking import ExportedModel, Tracker

MODEL = ExportedModel("model", "model", "b" * 64, 9, {"bits": "32"})


def dead_address() -> str:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}"


def run_lifecycle(settings: Settings, name: str, *, num_points: int) -> float:
    """A run that says something and ends; returns how long it was held up, in seconds."""
    started = time.monotonic()
    tracker = Tracker(settings, name)
    tracker.start_delivery()
    parent = tracker.open_run(name)
    child = tracker.open_run("pretrain", parent=parent)
    for step in range(num_points):
        tracker.log(child, [MetricPoint(name="pretrain/loss", value=1 / (step + 1), step=step)])
    tracker.close_run(child, "FINISHED")
    tracker.register(parent, [MODEL], released=MODEL.digest, is_approved=True)
    tracker.close_run(parent, "FINISHED")
    tracker.finish()
    held_up_s = time.monotonic() - started
    problem = tracker.wait(60)
    assert bool(problem) == settings.tracking_uri.startswith("http"), problem
    assert not problem or "the next run delivers them" in problem
    return held_up_s


def test_a_run_with_a_dead_tracker_goes_on_and_the_next_one_delivers_everything(tmp_path: Path):
    dead = Settings(home=tmp_path, tracking_uri=dead_address())
    assert run_lifecycle(dead, "20260101-a", num_points=500) < 2
    alive = Settings(home=tmp_path, tracking_uri=f"sqlite:///{tmp_path / 'mlflow.db'}")
    run_lifecycle(alive, "20260102-b", num_points=3)
    client = connect(alive.tracking_uri)
    runs = client.search_runs([client.get_experiment_by_name("glmflow").experiment_id])
    assert len(runs) == 4 and {run.info.status for run in runs} == {"FINISHED"}
    late = next(run for run in runs if run.data.tags["glmflow.run"] == "20260101-a/pretrain")
    assert len(client.get_metric_history(late.info.run_id, "pretrain/loss")) == 500
    assert resolve("champion", alive).digest == MODEL.digest
    assert list((tmp_path / "tracking").glob("*.jsonl")) == []
