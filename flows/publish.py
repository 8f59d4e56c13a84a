"""After a release: register its models, and write the report of the run."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from flows.headline import short_number
from flows.launch import StageResult
from flows.report import write_report
from flows.session import Session
from infra.artifacts import ArtifactRef, Release
from infra.lineage import LifecycleRow
from infra.tracking import ExportedModel
from stages.samples import SAMPLES_NAME

PASSED_METRIC = "release/passed"
GATE_PREFIX = "release/gate_passed/"
_BITS = {"model": 32, "int8": 8, "int4": 4}  # inputs of stage `release` that are models to deliver


def gates_passed(results: Sequence[StageResult]) -> bool | None:
    """The verdict of the release; None when the run did not come so far."""
    releases = [result for result in results if result.stage == "release"]
    return releases[-1].record.metrics[PASSED_METRIC] == 1 if releases else None


def failed_gates(results: Sequence[StageResult]) -> list[str]:
    """The gates that were not passed: `int4_perplexity_cost: got 0.09, limit 0.08`."""
    metrics = {k: v for r in results if r.stage == "release" for k, v in r.record.metrics.items()}
    names = [k.removeprefix(GATE_PREFIX) for k, v in metrics.items() if k.startswith(GATE_PREFIX) and v == 0]
    return [f"{n}: got {_figure(metrics, 'value', n)}, limit {_figure(metrics, 'threshold', n)}" for n in names]


def _figure(metrics: Mapping[str, float], what: str, gate: str) -> str:
    return short_number(metrics[f"release/gate_{what}/{gate}"])


def register_release(session: Session, *, promotes: bool) -> None:
    """Tell the registry about the released models; the gates' verdict makes a champion, where one is to be made."""
    verdict = gates_passed(session.results)
    if verdict is None:
        return
    release = next(result for result in session.results if result.stage == "release")
    inputs: dict[str, Any] = release.record.inputs
    refs = {name: ArtifactRef.model_validate(inputs[name]) for name in _BITS if name in inputs}
    models = [_exported(name, ref, refs["model"]) for name, ref in refs.items()]
    session.tracker.log_table(session.tracking_run, SAMPLES_NAME, samples(session))
    session.tracker.register(
        session.tracking_run, models, released=refs["model"].digest, is_approved=verdict, promotes=promotes
    )


def samples(session: Session) -> dict[str, Any]:
    """What the released models say to the same prompts, as a table; {} when the run did not come so far."""
    refs = [Release.model_validate(r.outputs["release"]) for r in session.results if r.stage == "release"]
    if not refs:
        return {}
    path = session.store.get(refs[-1]) / SAMPLES_NAME
    found: dict[str, Any] = json.loads(path.read_bytes()) if path.is_file() else {}
    return found


def _exported(name: str, ref: ArtifactRef, parent: ArtifactRef) -> ExportedModel:
    params = {"bits": str(_BITS[name]), "format": "huggingface"}
    if ref != parent:
        params["parent"] = parent.digest
    return ExportedModel(name, ref.kind, ref.digest, ref.num_bytes, params)


def report_path(session: Session) -> Path:
    """Where the report of a run is."""
    return session.settings.reports_dir / session.lifecycle_id / "report.html"


def write_run_report(session: Session, lifecycle: LifecycleRow) -> Path:
    """One page about everything that finished in this run."""
    records = {result.label: result.record for result in session.results}
    histories = {result.label: session.lineage.history(result.key) for result in session.results}
    path = report_path(session)
    write_report(lifecycle, records, histories, path, samples(session))
    return path
