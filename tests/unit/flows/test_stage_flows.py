"""One stage call: cached or launched, repeated only when that may help, each attempt tracked."""

import signal
from pathlib import Path

import pytest
from prefect.exceptions import TerminationSignal

from flows import stage_flows
from flows.console import PlainConsole
from flows.launch import StageCall, StageResult
from flows.session import Session
from flows.stage_flows import MAX_ATTEMPTS, StageWatcher, run_stage, stage_flow
from flows.stop import StopSwitch
from infra.artifacts import SourceManifest
from infra.errors import BadSpecError, RetryableError, StageFailedError, StopRequestedError
from infra.lineage import MetricPoint
from stages.execution import StageKey
from tests.support import launched_stage
from tests.support.launched_stage import LaunchedConfig, LaunchedInputs
from tests.support.lifecycle_records import record

SOURCES = SourceManifest(digest="a" * 64, num_bytes=1)
CALL = StageCall("toy", launched_stage.stage(), LaunchedConfig(), LaunchedInputs(sources=SOURCES))
RECORD = record("ingest", "raw_corpus", {"ingest/count": 2})
KEY = StageKey("k" * 64, "c" * 64, {})


class Launcher:
    """Ends each attempt as the list says; a record means success."""

    def __init__(self, *outcomes: BaseException, cached: bool = False) -> None:
        self.outcomes, self.cached, self.stop = list(outcomes), cached, StopSwitch()

    def find_finished(self, call):
        return KEY, RECORD if self.cached else None

    def run(self, call, key, watcher: StageWatcher) -> StageResult:
        watcher.metrics([MetricPoint(name="ingest/count", value=1)])
        if self.outcomes:
            raise self.outcomes.pop(0)
        return StageResult(call.label, call.stage.name, key.key, False, 2, 2, RECORD)


class Tracker:
    def __init__(self) -> None:
        self.opened: list[tuple[str, dict[str, str]]] = []
        self.points: list[MetricPoint] = []
        self.closed: list[str] = []
        self.fields: dict[str, object] = {}

    def open_run(self, name, *, tags, **fields) -> str:
        self.opened.append((name, tags))
        self.fields = fields
        return name

    def log(self, run, points) -> None:
        self.points += points

    def close_run(self, run, status) -> None:
        self.closed.append(status)


class Lineage:
    def history(self, key: str):
        return (MetricPoint(name="ingest/count", value=7),)


@pytest.fixture(autouse=True)
def no_pause(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stage_flows, "RETRY_PAUSE_S", 0.0)


def session_with(launcher: Launcher, tmp_path: Path) -> Session:
    session = object.__new__(Session)
    session.launcher, session.tracker, session.lineage = launcher, Tracker(), Lineage()  # type: ignore[assignment]
    session.console = PlainConsole((tmp_path / "out").open("w"))
    session.steps, session.results, session.tracking_run = [None], [], "life"  # type: ignore[list-item]
    return session


def run(session: Session) -> StageResult:
    return run_stage(session, CALL, lambda text: None)


def test_a_cached_stage_is_a_tracked_run_with_the_metrics_it_had(tmp_path: Path):
    session = session_with(Launcher(cached=True), tmp_path)
    result = run(session)
    assert result.is_cached and session.results == [result]
    (name, tags), *others = session.tracker.opened
    assert (name, tags["cached"], others) == ("toy", "true", [])
    assert [point.value for point in session.tracker.points] == [7] and session.tracker.closed == ["FINISHED"]


def test_only_what_may_succeed_is_repeated_and_each_attempt_is_a_run(tmp_path: Path):
    session = session_with(Launcher(RetryableError("x"), RetryableError("x")), tmp_path)
    assert not run(session).is_cached
    assert [name for name, _ in session.tracker.opened] == ["toy", "toy-attempt-2", "toy-attempt-3"]
    assert session.tracker.closed == ["FAILED", "FAILED", "FINISHED"]


def test_the_last_attempt_raises(tmp_path: Path):
    session = session_with(Launcher(*[RetryableError("gone")] * MAX_ATTEMPTS), tmp_path)
    with pytest.raises(RetryableError, match="gone"):
        run(session)
    assert session.tracker.closed == ["FAILED"] * MAX_ATTEMPTS


@pytest.mark.parametrize("error", [BadSpecError("no"), StageFailedError("raised")])
def test_a_bad_config_and_a_stage_that_raised_are_not_repeated(tmp_path: Path, error: Exception):
    session = session_with(Launcher(error), tmp_path)
    with pytest.raises(type(error)):
        run(session)
    assert session.tracker.closed == ["FAILED"] and session.results == []


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, TerminationSignal)]
)
def test_a_stop_is_told_to_prefect_in_its_own_words(
    tmp_path: Path, number: signal.Signals, raised: type[BaseException]
):
    session = session_with(Launcher(StopRequestedError("stopped")), tmp_path)
    session.launcher.stop.request(number)
    with pytest.raises(raised):
        run(session)
    assert session.tracker.closed == ["KILLED"]


def test_a_run_says_what_it_was_made_from(tmp_path: Path):
    session = session_with(Launcher(), tmp_path)
    run(session)
    _, tags = session.tracker.opened[0]
    assert tags["stage_key"] == KEY.key and tags["input.source_manifest"] == SOURCES.digest
    assert session.tracker.fields["datasets"] == {"sources": SOURCES.digest}
    assert session.tracker.fields["params"]["behaviour"] == "write" and session.tracker.fields["parent"] == "life"


def test_every_stage_has_a_flow_of_its_own_name_with_typed_parameters_and_no_result_cache():
    flow = stage_flow("clean")
    assert (flow.name, flow.persist_result, flow.retries) == ("clean", False, 0)
    assert set(flow.parameters.properties) == {"label", "config", "inputs", "seed"}
    assert "filters" in str(flow.parameters.definitions)


def test_a_stop_that_prefect_raises_is_a_killed_run_and_no_failure(tmp_path: Path):
    session = session_with(Launcher(TerminationSignal(signal.SIGTERM)), tmp_path)
    with pytest.raises(TerminationSignal):
        run(session)
    assert session.tracker.closed == ["KILLED"]
