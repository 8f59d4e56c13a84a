"""Journal operations as MLflow calls. Safe to repeat: a repeated operation finds what it made before."""

import json
from typing import Any

from mlflow.entities import Dataset, DatasetInput, InputTag, Metric, Param, RunTag
from mlflow.utils.mlflow_tags import MLFLOW_LOGGED_ARTIFACTS

from infra.journal import JournalReader, Operation
from infra.registry import ModelRegistry, connect
from infra.tracking import EXPERIMENT, LIFECYCLE_TAG

RUN_TAG = "glmflow.run"  # our name of the run
MAX_BATCH_METRICS = 1000
MAX_BATCH_PARAMS = 100
MAX_DATASET_CHARS = 36  # MLflow's limit for a dataset's digest; the whole digest stands in a tag


class MlflowRuns:
    """The runs of one MLflow server or database."""

    def __init__(self, uri: str, artifact_root: str | None) -> None:
        self._client = connect(uri)
        experiment = self._client.get_experiment_by_name(EXPERIMENT)
        self._experiment_id: str = (
            experiment.experiment_id
            if experiment
            else self._client.create_experiment(EXPERIMENT, artifact_location=artifact_root)
        )
        self._registry = ModelRegistry(self._client, self._experiment_id)

    def apply(self, operation: Operation, reader: JournalReader) -> None:
        """Do what one operation says. Raises what MLflow raises."""
        kind, state, lifecycle_id = operation["op"], reader.state, reader.path.stem
        if kind == "open":
            state.runs[operation["run"]] = self._open(operation, state.runs, lifecycle_id)
            state.open_runs.append(operation["run"])
            return
        run_id = state.runs[operation["run"]]
        if kind == "metrics":
            self._log(run_id, operation["points"])
        elif kind == "table":
            self._client.log_text(run_id, json.dumps(operation["table"], ensure_ascii=False), operation["name"])
            logged = [{"path": operation["name"], "type": "table"}]  # as log_table says it, which appends when repeated
            self._set_tags(run_id, {MLFLOW_LOGGED_ARTIFACTS: json.dumps(logged)})
        elif kind == "close":
            self._set_tags(run_id, operation.get("tags", {}))
            self._client.set_terminated(run_id, operation["status"], operation.get("at_ms"))
            state.open_runs = [run for run in state.open_runs if run != operation["run"]]
        elif kind == "register":
            self._registry.register(operation, run_id, lifecycle_id)
        else:
            raise ValueError(f"journal {reader.path}: want an operation of infra/tracking, got {kind!r}")

    def _open(self, operation: Operation, runs: dict[str, str], lifecycle_id: str) -> str:
        run_id = self._find(operation["run"], lifecycle_id)
        if run_id is None:
            tags = {**operation.get("tags", {}), RUN_TAG: operation["run"], LIFECYCLE_TAG: lifecycle_id}
            if operation.get("parent"):
                tags["mlflow.parentRunId"] = runs[operation["parent"]]
            run = self._client.create_run(
                self._experiment_id, start_time=operation["at_ms"], tags=tags, run_name=operation["name"]
            )
            run_id = str(run.info.run_id)
        params = [Param(name, value) for name, value in operation.get("params", {}).items()]
        for start in range(0, len(params), MAX_BATCH_PARAMS):
            self._client.log_batch(run_id, params=params[start : start + MAX_BATCH_PARAMS])
        if datasets := operation.get("datasets"):
            self._client.log_inputs(run_id, [_dataset(name, digest) for name, digest in datasets.items()])
        for name, text in operation.get("files", {}).items():
            self._client.log_text(run_id, text, name)
        return run_id

    def _find(self, run: str, lifecycle_id: str) -> str | None:
        """The run of this name, if an earlier delivery was cut off after it had created it."""
        wanted = f"tags.`{RUN_TAG}` = '{run}' and tags.`{LIFECYCLE_TAG}` = '{lifecycle_id}'"
        found = self._client.search_runs([self._experiment_id], wanted, max_results=1)
        return str(found[0].info.run_id) if found else None

    def _log(self, run_id: str, points: list[list[Any]]) -> None:
        metrics = [Metric(name, value, at_ms, step) for name, value, step, at_ms in points]
        for start in range(0, len(metrics), MAX_BATCH_METRICS):
            self._client.log_batch(run_id, metrics=metrics[start : start + MAX_BATCH_METRICS])

    def _set_tags(self, run_id: str, tags: dict[str, str]) -> None:
        if tags:
            self._client.log_batch(run_id, tags=[RunTag(name, value) for name, value in tags.items()])


def _dataset(name: str, digest: str) -> DatasetInput:
    dataset = Dataset(name, digest[:MAX_DATASET_CHARS], "glmflow", digest)
    return DatasetInput(dataset, [InputTag("mlflow.data.context", name), InputTag("sha256", digest)])
