"""What Prometheus reads from the platform: `python -m infra.exporter --fd N`, a daemon of `glmflow up`.

Everything is read when it is asked for: the lineage database, the journals that wait for the tracker, and the disk. The
lineage knows finished stage runs only; a key whose last attempt failed has left `failure.json` in its work directory.

Not covered: stages that were killed without a word, which leave no such file.
"""

import argparse
import shutil
import socket
import sys
from collections.abc import Iterator
from typing import Any

from prometheus_client.core import CollectorRegistry, CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from sqlalchemy import Executable, func, select
from sqlalchemy.orm import Session

from infra.credentials import App, platform_guard
from infra.errors import BadSpecError
from infra.lineage import ArtifactRow, LifecycleRow, Lineage, StageRunRow, now
from infra.settings import Settings, read_settings
from infra.tracking import is_lost, pending_operations

METRICS_PATH, HEALTH_PATH = "/metrics", "/health"
EXIT_BAD_SPEC = 2
LOST = "lost"


class PlatformFigures:
    """The platform's figures, looked up anew for each reader."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lineage = Lineage(settings.resolved_lineage_url())

    def collect(self) -> Iterator[Metric]:
        """Every figure; prometheus_client calls this."""
        yield from self._stages()
        yield from self._artifacts()
        yield from self._lifecycles()
        yield from self._machine()

    def _stages(self) -> Iterator[Metric]:
        runs = CounterMetricFamily("glmflow_stage_runs", "stage runs that finished", labels=["stage"])
        seconds = CounterMetricFamily("glmflow_stage_seconds", "seconds inside finished stage runs", labels=["stage"])
        memory = GaugeMetricFamily(
            "glmflow_stage_peak_memory_bytes", "highest peak of a stage's runs", labels=["stage"]
        )
        row = StageRunRow
        query = select(row.stage, func.count(), func.sum(row.wall_s), func.max(row.peak_rss_bytes)).group_by(row.stage)
        for stage, count, wall_s, peak in self._rows(query):
            runs.add_metric([stage], count)
            seconds.add_metric([stage], wall_s)
            memory.add_metric([stage], peak)
        failed = GaugeMetricFamily(
            "glmflow_stage_keys_failed", "stage keys whose last attempt failed", labels=["stage"]
        )
        for folder in sorted(path for path in self._settings.work_dir.glob("*") if path.is_dir()):
            failed.add_metric([folder.name], len(list(folder.glob("*/failure.json"))))
        yield from (runs, seconds, memory, failed)

    def _artifacts(self) -> Iterator[Metric]:
        counts = GaugeMetricFamily("glmflow_artifacts", "artifacts that the lineage knows", labels=["kind"])
        sizes = GaugeMetricFamily("glmflow_artifact_bytes", "their size together", labels=["kind"])
        query = select(ArtifactRow.kind, func.count(), func.sum(ArtifactRow.num_bytes)).group_by(ArtifactRow.kind)
        for kind, count, num_bytes in self._rows(query):
            counts.add_metric([kind], count)
            sizes.add_metric([kind], num_bytes)
        yield from (counts, sizes)

    def _lifecycles(self) -> Iterator[Metric]:
        counts = {"running": 0, LOST: 0}
        counts |= {s: n for s, n in self._rows(select(LifecycleRow.status, func.count()).group_by(LifecycleRow.status))}
        running = self._rows(select(LifecycleRow.id).where(LifecycleRow.status == "running"))
        counts[LOST] = sum(
            is_lost(self._settings, lifecycle_id, is_shared=self._lineage.is_shared) for (lifecycle_id,) in running
        )
        counts["running"] -= counts[LOST]
        family = GaugeMetricFamily(
            "glmflow_lifecycles", "lifecycle runs by how they are; lost: its process is gone", labels=["status"]
        )
        for status, count in sorted(counts.items()):
            family.add_metric([status], count)
        yield family
        age = GaugeMetricFamily("glmflow_last_success_age_seconds", "since a lifecycle run last finished well")
        query = select(func.max(LifecycleRow.ended_at)).where(LifecycleRow.status == "finished")
        for (ended_at,) in self._rows(query):
            if ended_at is not None:
                age.add_metric([], (now() - ended_at).total_seconds())
        yield age

    def _machine(self) -> Iterator[Metric]:
        free = GaugeMetricFamily("glmflow_disk_free_bytes", "free where everything is kept")
        free.add_metric([], shutil.disk_usage(self._settings.root).free)
        pending = GaugeMetricFamily("glmflow_tracker_pending_operations", "what MLflow has not been told yet")
        pending.add_metric([], pending_operations(self._settings))
        yield from (free, pending)

    def _rows(self, query: Executable) -> list[tuple[Any, ...]]:
        with Session(self._lineage.engine) as session:
            return [tuple(row) for row in session.execute(query)]


def create_app(settings: Settings) -> App:
    """`/metrics` behind the platform's password, unless it is open; `/health` always is."""
    from starlette.applications import Starlette
    from starlette.requests import Request
    from starlette.responses import PlainTextResponse, Response
    from starlette.routing import Route

    registry = CollectorRegistry(auto_describe=False)
    registry.register(PlatformFigures(settings))

    def metrics(_request: Request) -> Response:
        return Response(generate_latest(registry), media_type=CONTENT_TYPE_LATEST)

    def health(_request: Request) -> Response:
        return PlainTextResponse("ok")

    app = Starlette(routes=[Route(METRICS_PATH, metrics), Route(HEALTH_PATH, health)])
    open_paths = [HEALTH_PATH, *([METRICS_PATH] if settings.metrics_open else [])]
    return platform_guard(app, settings, open_paths)


def main(argv: list[str] | None = None) -> int:
    """Answer until SIGTERM."""
    from infra.server.process import serve

    parser = argparse.ArgumentParser(prog="python -m infra.exporter")
    parser.add_argument("--fd", type=int, required=True, help="a socket that listens already")
    args = parser.parse_args(argv)
    try:
        app = create_app(read_settings())
    except BadSpecError as error:
        sys.stderr.write(f"{error}\n")
        return EXIT_BAD_SPEC
    serve(app, socket.socket(fileno=args.fd), lambda: None, has_lifespan=False)
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
