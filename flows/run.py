"""One lifecycle run in this process, from an empty home to the summary.

What takes longest to start, the Prefect API, is started first and waited for as late as possible. However the run
ends, its rows are closed, its client is flushed and its children are ended.
"""

import sys
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from datetime import datetime
from typing import Literal

from flows.console import Console
from flows.headline import HeadlineValue
from flows.launch import STAGE_COMMAND, Launcher
from flows.plan import Step
from flows.prefect_api import PrefectApi, flush
from flows.publish import failed_gates, gates_passed, register_release, report_path, write_run_report
from flows.session import Session, entered
from flows.stop import StopSwitch
from flows.summary import Summary, quantized_rows, stage_rows
from infra.artifacts import SourceManifest
from infra.database import shown
from infra.errors import StopRequestedError
from infra.lineage import LifecycleRow, Lineage, MetricPoint, now
from infra.settings import Settings
from infra.stores.base import Store
from infra.tracking import RunStatus, Tracker, mark_killed
from stages import load_stage

DELIVERY_TIMEOUT_S = 45.0
Status = Literal["running", "finished", "failed", "stopped"]


@dataclass(frozen=True)
class RunRequest:
    """What is to be run. `steps` is the recipe's plan, already cut at --until."""

    recipe_name: str
    seed: int
    steps: Sequence[Step]
    params: dict[str, str]
    asked_at_s: float  # time.monotonic() when the command was given
    tags: Mapping[str, str] = field(default_factory=dict)  # of the tracker's run
    promotes: bool = True  # a release that passed its gates becomes the champion at once


class LifecycleRun:
    """Runs a request; `api` was started by the caller, before anything else was imported.

    `course` is what is run, by default a flow of its own; a flow that is running already gives its own course.
    """

    def __init__(
        self,
        request: RunRequest,
        settings: Settings,
        api: PrefectApi,
        stop: StopSwitch,
        command: Sequence[str] = STAGE_COMMAND,
        course: Callable[[Session], None] | None = None,
    ) -> None:
        self.request = request
        self.settings = settings
        self.started_at = now()
        self._api = api
        self._stop = stop
        self._command = command
        self._course = course or self._as_flow

    def run(self, sources: SourceManifest | None, store: Store, lineage: Lineage, console: Console) -> Summary:
        """Run the plan. Raises what ended it early, after everything was closed."""
        mark_killed(lineage, self.settings)
        lifecycle_id = f"{self.started_at:%Y%m%dT%H%M%S}-{uuid.uuid4().hex[:6]}"
        tracker = Tracker(self.settings, lifecycle_id)
        session = Session(
            lifecycle_id=lifecycle_id,
            settings=self.settings,
            store=store,
            lineage=lineage,
            launcher=Launcher(self.settings, lineage, store, self._stop, self._command),
            tracker=tracker,
            console=console,
            steps=self.request.steps,
            sources=sources,
            tracking_run=tracker.open_run(
                f"{self.request.recipe_name}-{lifecycle_id}",
                params={"recipe": self.request.recipe_name, "seed": str(self.request.seed), **self.request.params},
                tags={**self.request.tags, **({"sources": sources.digest} if sources else {})},
            ),
        )
        self._save(session, "running", None)
        try:
            self._execute(session)
        finally:
            notes = self._close(session, _status(sys.exception()))
        return self._summary(session, notes)

    def _execute(self, session: Session) -> None:
        session.console.note(f"run {session.lifecycle_id} of {self.request.recipe_name}: starting Prefect's API")
        self._api.wait_ready(self._stop)
        session.tracker.start_delivery()  # not earlier: its start-up would hold up the API's
        with ExitStack() as stack:
            stack.enter_context(self._api.client_settings())
            stack.enter_context(entered(session))
            stack.callback(flush)
            self._course(session)

    def _as_flow(self, session: Session) -> None:
        from flows.lifecycle import lifecycle  # Prefect reads its environment when it is imported

        lifecycle(self.request.recipe_name, session.lifecycle_id, self.request.seed)

    def _close(self, session: Session, status: Status) -> list[str]:
        """Close every row and every child; returns what a person should know about it."""
        ended_at = now()
        self._save(session, status, ended_at)
        register_release(session, promotes=self.request.promotes)
        self._close_tracking(session, status)
        if session.results:
            write_run_report(session, self._row(session, status, ended_at))
        session.console.close()
        self._api.close()
        note = session.tracker.wait(DELIVERY_TIMEOUT_S)
        return [note] if note else []

    def _close_tracking(self, session: Session, status: Status) -> None:
        """The parent run gets each stage's main metric, so that whole lifecycle runs can be compared."""
        figures = {"lifecycle/wall_s": self._wall_s(), "lifecycle/stage_process_s": _process_s(session)}
        for result in session.results:
            headline = HeadlineValue.of(load_stage(result.stage).headline, result.record)
            if headline.after is not None:
                figures[f"headline/{result.label}"] = headline.after
        run_status: dict[Status, RunStatus] = {"finished": "FINISHED", "failed": "FAILED"}
        session.tracker.log(session.tracking_run, [MetricPoint(name=n, value=v) for n, v in figures.items()])
        session.tracker.close_run(session.tracking_run, run_status.get(status, "KILLED"))
        session.tracker.finish()

    def _save(self, session: Session, status: Status, ended_at: datetime | None) -> None:
        row = self._row(session, status, ended_at)
        fields = ("recipe", "seed", "status", "started_at", "ended_at", "tracking_run_id")
        session.lineage.save_lifecycle(row.id, **{name: getattr(row, name) for name in fields})

    def _row(self, session: Session, status: Status, ended_at: datetime | None) -> LifecycleRow:
        return LifecycleRow(
            id=session.lifecycle_id,
            recipe=self.request.recipe_name,
            seed=self.request.seed,
            status=status,
            started_at=self.started_at,
            ended_at=ended_at,
            tracking_run_id=session.tracking_run,
        )

    def _wall_s(self) -> float:
        return time.monotonic() - self.request.asked_at_s

    def _summary(self, session: Session, notes: list[str]) -> Summary:
        wall_s, process_s = self._wall_s(), _process_s(session)
        return Summary(
            lifecycle=session.lifecycle_id,
            recipe=self.request.recipe_name,
            seed=self.request.seed,
            status="finished",
            stages=stage_rows(session.results),
            wall_s=round(wall_s, 3),
            stage_process_s=round(process_s, 3),
            overhead_s=round(wall_s - process_s, 3),
            peak_rss_bytes=max(result.record.peak_rss_bytes for result in session.results),
            quantized=quantized_rows(session.results),
            gates_passed=gates_passed(session.results),
            failed_gates=failed_gates(session.results),
            report=str(report_path(session)),
            tracking_uri=shown(self.settings.resolved_tracking_uri()),
            notes=notes,
        )


def _process_s(session: Session) -> float:
    return sum(result.process_s for result in session.results)


def _status(error: BaseException | None) -> Status:
    """How a run ended: a stop is no failure, and whatever is no Exception is a stop."""
    if error is None:
        return "finished"
    return "failed" if isinstance(error, Exception) and not isinstance(error, StopRequestedError) else "stopped"
