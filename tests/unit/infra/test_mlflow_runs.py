"""What MLflow shows of a run is what the run said."""

from pathlib import Path

from infra.journal import JournalReader
from infra.mlflow_runs import MlflowRuns
from infra.registry import connect, resolve
from infra.settings import Settings
from infra.tracking import EXPERIMENT, LIFECYCLE_TAG

OPERATIONS = (
    {"op": "open", "run": "life", "name": "life", "at_ms": 1_000, "params": {"recipe": "demo"}},
    {
        "op": "open", "run": "life/clean", "name": "clean", "parent": "life", "at_ms": 2_000,
        "params": {f"field_{n}": str(n) for n in range(150)}, "tags": {"cached": "true"},
        "files": {"config.json": "{}"}, "datasets": {"corpus": "a" * 64},
    },
    {"op": "metrics", "run": "life/clean", "points": [["clean/kept", n, n, 3_000] for n in range(1_500)]},
    {"op": "close", "run": "life/clean", "status": "FINISHED", "at_ms": 4_000, "tags": {"end": "well"}},
    {
        "op": "register", "run": "life", "released": "b" * 64, "is_approved": True,
        "models": [{"name": "model", "kind": "model", "digest": "b" * 64, "num_bytes": 9, "params": {"bits": "32"}}],
    },
    {"op": "table", "run": "life", "name": "samples.json", "table": {"columns": ["a", "b"], "data": [["1", "2"]]}},
    {"op": "close", "run": "life", "status": "FAILED", "at_ms": 5_000},
)  # fmt: skip


def test_parent_child_params_metrics_inputs_files_and_end_arrive_once_though_delivered_twice(
    tracking_uri: str, tmp_path: Path
):
    runs = MlflowRuns(tracking_uri, (tmp_path / "files").as_uri())
    for _ in range(2):  # as after a crash between a delivery and its receipt
        reader = JournalReader(tmp_path / "20260101.jsonl")
        for operation in OPERATIONS:
            runs.apply(operation, reader)
    assert reader.state.open_runs == []
    client = connect(tracking_uri)
    experiment = client.get_experiment_by_name(EXPERIMENT)
    found = {run.info.run_name: run for run in client.search_runs([experiment.experiment_id])}
    assert set(found) == {"life", "clean"}
    child, parent = found["clean"], found["life"]
    assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
    assert child.data.tags[LIFECYCLE_TAG] == parent.data.tags[LIFECYCLE_TAG] == "20260101"
    assert len(child.data.params) == 150 and child.data.tags["cached"] == "true" and child.data.tags["end"] == "well"
    assert child.data.metrics["clean/kept"] == 1_499
    assert len(client.get_metric_history(child.info.run_id, "clean/kept")) == 1_500
    assert [d.dataset.name for d in child.inputs.dataset_inputs] == ["corpus"]
    assert [f.path for f in client.list_artifacts(child.info.run_id)] == ["config.json"]
    assert (child.info.status, child.info.start_time, child.info.end_time) == ("FINISHED", 2_000, 4_000)
    assert parent.info.status == "FAILED"
    table = client.load_table(experiment.experiment_id, "samples.json", [parent.info.run_id])
    assert table.to_dict("records") == [{"a": 1, "b": 2}]
    assert resolve("champion", Settings(home=tmp_path, tracking_uri=tracking_uri)).digest == "b" * 64
