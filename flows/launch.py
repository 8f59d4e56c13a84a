"""Run one stage: read its finished run back, or start `python -m stages NAME --spec FILE` and see it through.

The orchestrator computes the stage's key itself, so a cache hit starts no process. Otherwise the stage gets its own
process (infra/process.py), log file and parent-death signal; what it writes is passed on while it runs; a stop becomes
a SIGTERM, then time to save the state, then the end of everything the stage started. Its exit code decides what is
raised: 1 RetryableError or StageFailedError, 2 BadSpecError, 143 StopRequestedError. Whether a stage is finished is
read from the lineage and the store only, never from what the process printed.

Not covered: machines without /proc (the peak memory and the end of processes in foreign sessions need it).
"""

import json
import signal
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from flows.fit import check_fit
from flows.follow import StageFollower, Watcher, tail
from flows.stop import StopSwitch
from infra.errors import BadSpecError, GlmflowError, RetryableError, StageFailedError, StopRequestedError
from infra.lineage import Lineage, StageRecord
from infra.process import ChildProcess, child_environment
from infra.settings import Settings
from infra.stores.base import Store
from stages.contract import Stage, StageModel, json_of
from stages.execution import StageKey, find_finished, refs_in

STAGE_COMMAND = (sys.executable, "-P", "-m", "stages")  # -P: a folder `stages` where the user stands is not ours
POLL_S = 0.2
GRACE_S = 120.0  # for the checkpoint, after a stop was asked for
NUM_LOG_LINES = 12
EXIT_DONE, EXIT_FAILED, EXIT_BAD_SPEC, EXIT_STOPPED = 0, 1, 2, 143


@dataclass(frozen=True)
class StageCall:
    """A stage with everything that goes in. `label` names this call within a lifecycle ("quantize-int8")."""

    label: str
    stage: Stage[Any, Any, Any]
    config: StageModel
    inputs: StageModel
    seed: int = 0


@dataclass(frozen=True)
class StageResult:
    """How one stage call went. `process_s` is the life of its processes, start-up and imports included."""

    label: str
    stage: str
    key: str
    is_cached: bool
    wall_s: float
    process_s: float
    record: StageRecord

    @property
    def outputs(self) -> dict[str, Any]:
        """Output references, as JSON values."""
        return self.record.outputs


@dataclass
class Launcher:
    """Runs stage calls in child processes."""

    settings: Settings
    lineage: Lineage
    store: Store
    stop: StopSwitch
    command: Sequence[str] = STAGE_COMMAND
    grace_s: float = GRACE_S

    def find_finished(self, call: StageCall) -> tuple[StageKey, StageRecord | None]:
        """The call's key, and its finished run if there is one."""
        key = StageKey.of(call.stage, call.config, call.inputs, call.seed, self.settings.threads)
        return key, find_finished(key, self.lineage, self.store)

    def run(self, call: StageCall, key: StageKey, watcher: Watcher) -> StageResult:
        """Run the call in a process of its own. Raises what its exit code says."""
        config, inputs = json_of(call.config), json_of(call.inputs)
        peak_rss_bytes = self.lineage.peak_rss_bytes(call.stage.name, config)
        check_fit(call.label, refs_in(inputs), peak_rss_bytes, self.settings)
        workdir = key.workdir(call.stage.name, self.settings)
        workdir.mkdir(parents=True, exist_ok=True)
        spec_path, log_path = workdir / "spec.json", workdir / "stage.log"
        spec = {"config": config, "inputs": inputs, "seed": call.seed}
        spec_path.write_text(json.dumps(spec, indent=2))
        follower = StageFollower(workdir, log_path, watcher, is_resumed=(workdir / "checkpoint").is_dir())
        failure_path = workdir / "failure.json"
        failure_path.unlink(missing_ok=True)
        command = [*self.command, call.stage.name, "--spec", str(spec_path), "--failure", str(failure_path)]
        started = time.monotonic()
        with self.stop.listening():
            code, peak_rss_bytes = self._see_through(command, log_path, follower)
        process_s = time.monotonic() - started
        if code != EXIT_DONE:
            raise _failure(call, code, log_path, failure_path, peak_rss_bytes, stop=self.stop)
        record = find_finished(key, self.lineage, self.store)
        if record is None:
            raise RetryableError(
                f"stage {call.label}: want a record of key {key.key[:12]} after it ended well, got none (its code or "
                f"an installed distribution changed while it ran); run it again"
            )
        return StageResult(call.label, call.stage.name, key.key, False, process_s, process_s, record)

    def _see_through(self, command: list[str], log_path: Path, follower: StageFollower) -> tuple[int, int]:
        """The process's exit code and peak memory, after it and all it started have ended."""
        child = ChildProcess(command, log_path=log_path, environment=self._environment())
        peak_rss_bytes, stop_until, is_followed = 0, None, False
        try:
            while child.is_running():
                follower.poll()
                peak_rss_bytes = max(peak_rss_bytes, child.peak_rss_bytes())
                if self.stop.is_requested and stop_until is None:
                    child.ask_to_stop()
                    stop_until = time.monotonic() + self.grace_s
                if stop_until is not None and time.monotonic() > stop_until:
                    break
                child.wait(POLL_S, poll_s=POLL_S / 10)
            is_followed = True
        finally:
            try:
                # Whatever else ends us here, the stage first saves its state; a second Ctrl-C means "now".
                if not is_followed and not self.stop.is_requested:
                    child.ask_to_stop()
                    child.wait(self.grace_s)
            finally:
                code = child.end()
            follower.poll(is_last_call=True)
        return code, peak_rss_bytes

    def _environment(self) -> dict[str, str]:
        """The settings spelled out, so that the stage means the same home, store and databases as we do."""
        return child_environment(
            PYTHONUNBUFFERED="1",
            GLMFLOW_HOME=str(self.settings.root),
            GLMFLOW_LINEAGE_URL=self.settings.resolved_lineage_url(),
            GLMFLOW_THREADS=str(self.settings.threads),
            GLMFLOW_STORE_URL=self.settings.store_url,
            GLMFLOW_S3_ENDPOINT_URL=self.settings.s3_endpoint_url,
            GLMFLOW_STORE_CACHE_BYTES=str(self.settings.store_cache_bytes),
        )


def cached_result(call: StageCall, key: StageKey, record: StageRecord, wall_s: float) -> StageResult:
    """The result of a call that had been run before."""
    return StageResult(call.label, call.stage.name, key.key, True, wall_s, 0.0, record)


def _failure(
    call: StageCall, code: int, log_path: Path, failure_path: Path, peak_rss_bytes: int, *, stop: StopSwitch
) -> GlmflowError:
    """The error that an exit code stands for, with the last lines of the log and where the rest is."""
    message, is_retryable = _reported(failure_path)
    if code in {EXIT_STOPPED, -signal.SIGTERM} or (code < 0 and stop.is_requested):
        return StopRequestedError(f"stage {call.label}: stopped on request; the same command goes on from there")
    if code == EXIT_BAD_SPEC and message:
        return BadSpecError(message)
    lines = "".join(f"\n    {line}" for line in tail(log_path, NUM_LOG_LINES))
    where = f"\n  last lines of {log_path}:{lines}"
    if code == EXIT_BAD_SPEC:
        return BadSpecError(f"stage {call.label}: its input was refused{where}")
    if code < 0:
        return _killed(call, -code, peak_rss_bytes, where)
    text = message or f"stage {call.label}: exit code {code}"
    return RetryableError(text + where) if is_retryable else StageFailedError(text + where)


def _killed(call: StageCall, signal_number: int, peak_rss_bytes: int, where: str) -> GlmflowError:
    name = signal.Signals(signal_number).name
    used = f"it had used up to {peak_rss_bytes / 2**30:.1f} GiB"
    if signal_number == signal.SIGKILL:
        return RetryableError(
            f"stage {call.label}: killed by {name}, most likely because the machine ran out of memory ({used}); "
            f"close other programs or make its batches smaller, then run the same command again{where}"
        )
    return StageFailedError(f"stage {call.label}: crashed with {name} ({used}){where}")


def _reported(failure_path: Path) -> tuple[str, bool]:
    """What the stage's entry point said about its failure: the sentence, and whether the same call may succeed."""
    try:
        failure = json.loads(failure_path.read_text())
    except (FileNotFoundError, json.JSONDecodeError):
        return "", False
    return str(failure["message"]), bool(failure["is_retryable"])
