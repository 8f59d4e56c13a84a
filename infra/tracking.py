"""Tell MLflow what a lifecycle run does, without ever waiting for it.

A lifecycle is a parent run, each stage attempt a child run. Everything is appended to a journal on disk (infra/journal)
and delivered by a process of its own (infra/delivery): the tracker's import, its database and its outages cost the run
nothing, and what could not be delivered is delivered with the next run.
"""

import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from infra.credentials import client_environment
from infra.journal import JournalReader, JournalWriter
from infra.lineage import Lineage, MetricPoint
from infra.process import ChildProcess, child_environment
from infra.settings import Settings

EXPERIMENT = "glmflow"
LIFECYCLE_TAG = "glmflow.lifecycle"  # on every run, so that a family is found without walking parents (M13)
RunStatus = Literal["FINISHED", "FAILED", "KILLED"]
MAX_PARAM_CHARS = 250
_DELIVERY_COMMAND = (sys.executable, "-P", "-m", "infra.delivery")


@dataclass(frozen=True)
class ExportedModel:
    """A model for the registry: which bytes, and what they are."""

    name: str
    kind: str
    digest: str
    num_bytes: int
    params: Mapping[str, str]


def flatten(values: Mapping[str, Any], prefix: str = "") -> dict[str, str]:
    """Nested config values as `optimizer.lr` -> "0.003", cut to what a table of parameters can show."""
    flat: dict[str, str] = {}
    for name, value in values.items():
        if isinstance(value, dict):
            flat |= flatten(value, f"{prefix}{name}.")
        else:
            flat[prefix + name] = str(value)[:MAX_PARAM_CHARS]
    return flat


class Tracker:
    """The tracking of one lifecycle run."""

    def __init__(self, settings: Settings, lifecycle_id: str) -> None:
        self.folder = tracking_dir(settings)
        self.lifecycle_id = lifecycle_id
        self._settings = settings
        self._path = self.folder / f"{lifecycle_id}.jsonl"
        self._writer = JournalWriter(self._path)
        self._delivery: ChildProcess | None = None

    def start_delivery(self) -> None:
        """Start the process that delivers; until then everything waits in the journal."""
        self._delivery = ChildProcess(
            [*_DELIVERY_COMMAND, "--own", self.lifecycle_id],
            log_path=self.folder / "delivery.log",
            environment=_environment(self._settings),
        )

    def open_run(
        self,
        name: str,
        *,
        parent: str | None = None,
        params: Mapping[str, str] | None = None,
        tags: Mapping[str, str] | None = None,
        files: Mapping[str, str] | None = None,
        datasets: Mapping[str, str] | None = None,
    ) -> str:
        """A new run; returns our name of it. `files` are small texts, `datasets` maps a name to a digest."""
        run = name if parent is None else f"{parent}/{name}"
        self._append("open", run, name=name, parent=parent, params=params, tags=tags, files=files, datasets=datasets)
        return run

    def log(self, run: str, points: Sequence[MetricPoint]) -> None:
        """Metric points of a run."""
        if points:
            self._append("metrics", run, points=[[p.name, p.value, p.step] for p in points])

    def log_table(self, run: str, name: str, table: Mapping[str, Any]) -> None:
        """A table (`columns` and `data`) that the tracker shows, and compares between runs; `name` ends in .json."""
        self._append("table", run, name=name, table=table)

    def close_run(self, run: str, status: RunStatus, tags: Mapping[str, str] | None = None) -> None:
        """The run is over."""
        self._append("close", run, status=status, tags=tags)

    def register(
        self, run: str, models: Sequence[ExportedModel], *, released: str, is_approved: bool, promotes: bool = True
    ) -> None:
        """Register a release: `released` is the digest of the model that becomes the champion if it may and should."""
        listed = [{**vars(model), "params": dict(model.params)} for model in models]
        self._append("register", run, models=listed, released=released, is_approved=is_approved, promotes=promotes)

    def _append(self, kind: str, run: str, **fields: Any) -> None:
        given = {name: dict(v) if isinstance(v, Mapping) else v for name, v in fields.items() if v is not None}
        self._writer.append({"op": kind, "run": run, "at_ms": int(time.time() * 1000), **given})

    def finish(self) -> None:
        """Nothing more will come; the delivery ends by itself when it has delivered all."""
        self._append("end", self.lifecycle_id)
        self._writer.close()

    def wait(self, timeout_s: float) -> str:
        """Wait for the delivery; returns a sentence about what could not be delivered, "" when all was."""
        if self._delivery is not None:
            self._delivery.wait(timeout_s)
            self._delivery.end()
        if self._writer.problem:
            return f"tracking: some of this run could not be written down ({self._writer.problem})"
        if not self._path.is_file():
            return ""
        reader = JournalReader(self._path)
        return (
            f"tracking: {reader.num_pending()} entries could not be delivered "
            f"({reader.state.problem or 'the tracker was too slow'}); the next run delivers them"
        )


def tracking_dir(settings: Settings) -> Path:
    """Where journals wait."""
    return settings.root / "tracking"


def mark_killed(lineage: Lineage, settings: Settings) -> None:
    """Runs whose process was killed could not say so: a run that lives holds its journal.

    Not covered: a run of another machine that uses the same database; it has no journal here.
    """
    for row in lineage.lifecycles():
        if row.status == "running" and is_lost(settings, row.id, is_shared=lineage.is_shared):
            lineage.save_lifecycle(row.id, status="killed")


def is_lost(settings: Settings, lifecycle_id: str, *, is_shared: bool) -> bool:
    """Whether the process of a run that has not ended is gone; with a shared database it may be another machine's."""
    journal = tracking_dir(settings) / f"{lifecycle_id}.jsonl"
    return JournalReader(journal).is_abandoned() if journal.is_file() else not is_shared


def pending_operations(settings: Settings) -> int:
    """How much the tracker has not been told yet, of all runs."""
    journals = [path for path in tracking_dir(settings).glob("*.jsonl") if not path.stem.endswith(".rejected")]
    return sum(map(_num_pending, journals))


def _num_pending(path: Path) -> int:
    try:
        return JournalReader(path).num_pending()
    except FileNotFoundError:  # it was delivered and removed just now
        return 0


def artifact_root(settings: Settings) -> str | None:
    """Where a tracker without a server of its own keeps small files; None leaves it to the server."""
    if settings.resolved_tracking_uri().startswith("http"):
        return None
    return (settings.root / "mlartifacts").as_uri()


def _environment(settings: Settings) -> dict[str, str]:
    return child_environment(
        **client_environment(settings),
        GLMFLOW_HOME=str(settings.root),
        GLMFLOW_TRACKING_URI=settings.resolved_tracking_uri(),
        MLFLOW_HTTP_REQUEST_MAX_RETRIES="1",
        MLFLOW_HTTP_REQUEST_TIMEOUT="20",
    )
