"""Run a stage once per key: look for the finished run, else run it, and write the record last."""

import fcntl
import hashlib
import json
import os
import platform
import resource
import shutil
import signal
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from infra.artifacts import ArtifactRef
from infra.errors import ArtifactMissingError, BadSpecError, StopRequestedError
from infra.lineage import Lineage, MetricPoint, StageRecord, now
from infra.settings import Settings
from infra.stores.base import Store
from infra.stores.opening import open_store
from stages.contract import C, I, O, Stage, StageContext, StageModel, json_of
from stages.digests import code_digest, environment, plugin_modules


@dataclass(frozen=True)
class StageKey:
    """The cache key of one stage call, with what went into it: equal keys promise equal outputs."""

    key: str
    code_digest: str
    environment: dict[str, str]

    @classmethod
    def of(cls, stage: Stage[C, I, O], config: C, inputs: I, seed: int, threads: int) -> "StageKey":
        """Key = sha256(name, config, input digests, seed, code digest, environment digest)."""
        modules = (f"stages.{stage.name}", *plugin_modules(config))
        code, pins = code_digest(modules), environment(modules, threads)
        parts = [stage.name, json_of(config), json_of(inputs), seed, code, pins]
        key = hashlib.sha256(json.dumps(parts, sort_keys=True).encode()).hexdigest()
        return cls(key, code, pins)

    def workdir(self, stage_name: str, settings: Settings) -> Path:
        """The work directory that belongs to this key."""
        return settings.work_dir / stage_name / self.key[:16]


def find_finished(key: StageKey, lineage: Lineage, store: Store) -> StageRecord | None:
    """The record of a finished run whose outputs are all still in the store; None otherwise."""
    record = lineage.find_by_key(key.key)
    if record is None:
        return None
    try:
        for ref in refs_in(record.outputs):
            store.verify(ref)
    except ArtifactMissingError:
        return None
    return record


def execute(stage: Stage[C, I, O], config: C, inputs: I, *, seed: int, settings: Settings) -> O:
    """Run `stage`, or read its finished run back. Raises what the stage raises; the record is written last."""
    started_at, started = now(), time.monotonic()
    store, lineage = open_store(settings), Lineage(settings.resolved_lineage_url())
    key = StageKey.of(stage, config, inputs, seed, settings.threads)
    workdir = key.workdir(stage.name, settings)
    workdir.mkdir(parents=True, exist_ok=True)
    with _exclusive(workdir / "lock"):
        if finished := find_finished(key, lineage, store):
            return stage.outputs.model_validate(finished.outputs)
        _verify_inputs(stage.name, inputs, store)
        ctx = _fresh_context(stage, store, workdir, seed)
        with _stop_on_sigterm(stage, ctx):
            outputs = stage.run(config, inputs, ctx)
        for ref in refs_in(json_of(outputs)):
            store.verify(ref)
        history = read_history(ctx.metrics_path)
        record = StageRecord(
            stage=stage.name,
            key=key.key,
            seed=seed,
            config=json_of(config),
            inputs=json_of(inputs),
            outputs=json_of(outputs),
            metrics={point.name: point.value for point in history},
            code_digest=key.code_digest,
            environment=key.environment,
            host=platform.node(),
            started_at=started_at,
            ended_at=now(),
            wall_s=time.monotonic() - started,
            peak_rss_bytes=_peak_rss_bytes(),
        )
        lineage.commit(record, history)
        shutil.rmtree(ctx.scratch, ignore_errors=True)
        shutil.rmtree(ctx.checkpoint_dir, ignore_errors=True)
    return outputs


def refs_in(value: Any) -> Iterator[ArtifactRef]:
    """Every artifact reference inside plain JSON values."""
    if isinstance(value, dict):
        if value.keys() == ArtifactRef.model_fields.keys():
            yield ArtifactRef.model_validate(value)
        else:
            for item in value.values():
                yield from refs_in(item)


def read_history(path: Path) -> tuple[MetricPoint, ...]:
    """Metric points in the order they were first logged; a step that was repeated after a resume counts once."""
    points: dict[tuple[str, int], MetricPoint] = {}
    if path.is_file():
        for line in path.read_text().splitlines():
            try:
                point = MetricPoint.model_validate_json(line)
            except (
                ValueError
            ):  # the last line of a killed process may be cut; its step is logged again after the resume
                continue
            points[point.name, point.step] = point
    return tuple(points.values())


def _verify_inputs(stage_name: str, inputs: StageModel, store: Store) -> None:
    for ref in refs_in(json_of(inputs)):
        try:
            store.verify(ref)
        except ArtifactMissingError as error:
            raise BadSpecError(f"stage {stage_name}: {error}") from error


def _fresh_context(stage: Stage[C, I, O], store: Store, workdir: Path, seed: int) -> StageContext:
    ctx = StageContext(store, workdir, seed, declared_metrics=stage.metrics)
    shutil.rmtree(ctx.scratch, ignore_errors=True)
    ctx.scratch.mkdir()
    if not ctx.checkpoint_dir.exists():
        ctx.metrics_path.unlink(missing_ok=True)
    ctx.checkpoint_dir.mkdir(exist_ok=True)
    ctx.progress_path.unlink(missing_ok=True)
    return ctx


@contextmanager
def _exclusive(lock_path: Path) -> Iterator[None]:
    """Two processes with the same key: the second waits, then reads the first one's result back."""
    with lock_path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


@contextmanager
def _stop_on_sigterm(stage: Stage[C, I, O], ctx: StageContext) -> Iterator[None]:
    def request_stop(_signal: int, _frame: FrameType | None) -> None:
        ctx.stop_requested = True
        if not stage.checkpoints:
            raise StopRequestedError(f"stage {stage.name} stopped on request; running it again starts it afresh")

    previous = signal.signal(signal.SIGTERM, request_stop)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, previous)


def _peak_rss_bytes() -> int:
    usages = (resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
    return max(usages) * 1024


def limit_threads(threads: int) -> None:
    """Fix the thread count of every numeric library that is imported after this call."""
    for name in ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
        os.environ[name] = str(threads)
    os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")  # spinning threads cost half the speed on a shared machine
