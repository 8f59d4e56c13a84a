"""One Prefect flow per stage, named after it; its run is what Prefect shows of a stage call.

The flow looks for the finished run, else launches the stage; the store and the lineage remember finished work, so
Prefect's own result cache stays off. Only what may succeed when it is repeated is repeated (RetryableError): neither a
bad config nor a stage that raised. Each attempt is a run of its own in the tracker.
"""

import json
import signal
import sys
import time
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from prefect import flow, get_run_logger
from prefect.exceptions import TerminationSignal
from prefect.flows import Flow

from flows.headline import HeadlineValue, short_duration
from flows.launch import StageCall, StageResult, cached_result
from flows.session import Session, current
from infra.artifacts import ArtifactRef
from infra.errors import RetryableError, StopRequestedError
from infra.lineage import MetricPoint
from infra.tracking import RunStatus, flatten
from stages import load_stage
from stages.contract import StageModel, json_of
from stages.execution import StageKey, refs_in

MAX_ATTEMPTS = 3
RETRY_PAUSE_S = 5.0


class StageWatcher:
    """Passes on what a running stage says: log lines to Prefect and the terminal, metrics to the tracker."""

    def __init__(self, session: Session, tracking_run: str, log: Callable[[str], None]) -> None:
        self._session = session
        self._run = tracking_run
        self._log = log

    def line(self, text: str) -> None:
        if text:
            self._log(text)
            self._session.console.line(text)

    def metrics(self, points: Sequence[MetricPoint]) -> None:
        self._session.tracker.log(self._run, points)

    def progress(self, done: float, total: float, unit: str) -> None:
        self._session.console.progress(done, total, unit)


@cache
def stage_flow(stage_name: str) -> Flow[..., StageResult]:
    """The Prefect flow of one stage. Its parameters are the stage's own, typed."""
    stage = load_stage(stage_name)

    def run(label: str, config: StageModel, inputs: StageModel, seed: int = 0) -> StageResult:
        return run_stage(current(), StageCall(label, stage, config, inputs, seed), get_run_logger().info)

    run.__annotations__ |= {"config": stage.config, "inputs": stage.inputs}
    run.__doc__ = stage.headline.label
    decorate = flow(name=stage_name, flow_run_name="{label}", persist_result=False, validate_parameters=False)
    return decorate(run)


def run_stage(session: Session, call: StageCall, log: Callable[[str], None]) -> StageResult:
    """One stage call, from the cache or by a process, tracked. Raises what the last attempt raised."""
    started, place = time.monotonic(), session.place
    key, record = session.launcher.find_finished(call)
    if record is not None:
        result = cached_result(call, key, record, time.monotonic() - started)
        _replay(session, call, result)
        log(f"finished before under key {key.key[:12]}; nothing was run")
    else:
        session.console.begin(call.label, *place)
        result = _launch(session, call, key, log)
    headline = str(HeadlineValue.of(call.stage.headline, result.record))
    took = "cached" if result.is_cached else short_duration(result.wall_s)
    session.console.end(call.label, *place, ", ".join(filter(None, (took, headline))))
    session.results.append(result)
    return result


def _launch(session: Session, call: StageCall, key: StageKey, log: Callable[[str], None]) -> StageResult:
    for attempt in range(1, MAX_ATTEMPTS + 1):
        run = _open_run(session, call, key.key, attempt, is_cached=False)
        status: RunStatus = "FAILED"
        try:
            result = session.launcher.run(call, key, StageWatcher(session, run, log))
            status = "FINISHED"
        except RetryableError as error:
            if attempt == MAX_ATTEMPTS:
                raise
            session.console.note(f"{error}\nattempt {attempt + 1} of {MAX_ATTEMPTS} starts in {RETRY_PAUSE_S:.0f} s")
            log(str(error))
            time.sleep(RETRY_PAUSE_S)
        except StopRequestedError:
            # Prefect's word for a run that a signal ended; the switch knows which signal it was.
            is_interrupt = session.launcher.stop.signal == signal.SIGINT
            raise (KeyboardInterrupt() if is_interrupt else TerminationSignal(signal.SIGTERM)) from None
        else:
            return result
        finally:
            session.tracker.close_run(run, "KILLED" if _is_stop(sys.exception()) else status)
    raise AssertionError("the last attempt returns or raises")


def _is_stop(error: BaseException | None) -> bool:
    """A stop is no failure, and whatever is no Exception is a stop."""
    return error is not None and not isinstance(error, Exception)


def _replay(session: Session, call: StageCall, result: StageResult) -> None:
    """A cached stage is a run too, with the metrics it had, so that every lifecycle run can be compared."""
    run = _open_run(session, call, result.key, 1, is_cached=True)
    session.tracker.log(run, session.lineage.history(result.key))
    session.tracker.close_run(run, "FINISHED")


def _open_run(session: Session, call: StageCall, key: str, attempt: int, *, is_cached: bool) -> str:
    config, inputs = json_of(call.config), json_of(call.inputs)
    return session.tracker.open_run(
        call.label if attempt == 1 else f"{call.label}-attempt-{attempt}",
        parent=session.tracking_run,
        params=flatten(config) | {"seed": str(call.seed)},
        tags={
            "stage": call.stage.name,
            "stage_key": key,
            "attempt": str(attempt),
            "cached": str(is_cached).lower(),
            **{f"input.{ref.kind}": ref.digest for ref in refs_in(inputs)},
        },
        files={"config.json": json.dumps(config, indent=2)},
        datasets=_datasets(inputs),
    )


def _datasets(inputs: dict[str, Any]) -> dict[str, str]:
    """Input name -> digest, also of the members of a mapping of inputs."""
    named: dict[str, str] = {}
    for name, value in inputs.items():
        if isinstance(value, dict) and value.keys() == ArtifactRef.model_fields.keys():
            named[name] = str(value["digest"])
        elif isinstance(value, dict):
            named |= {f"{name}.{inner}": digest for inner, digest in _datasets(value).items()}
    return named
