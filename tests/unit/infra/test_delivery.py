"""Nothing that a run told the tracker is lost, whatever the tracker does."""

from pathlib import Path

import pytest
from mlflow.exceptions import MlflowException
from mlflow.protos.databricks_pb2 import INVALID_PARAMETER_VALUE

from infra import delivery
from infra.delivery import Delivery
from infra.journal import JournalReader, JournalWriter, Operation


class Tracker:
    """Remembers what it was told; down for the first `num_outages` calls."""

    def __init__(self, num_outages: int = 0, refused: str = "") -> None:
        self.told: list[Operation] = []
        self.num_outages = num_outages
        self.refused = refused

    def apply(self, operation: Operation, reader: JournalReader) -> None:
        if self.num_outages:
            self.num_outages -= 1
            raise ConnectionError("connection refused")
        if operation["op"] == self.refused:
            raise MlflowException("no such thing", INVALID_PARAMETER_VALUE)
        if operation["op"] == "open":
            reader.state.open_runs.append(operation["run"])
        self.told.append(operation)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delivery.time, "sleep", lambda seconds: None)


def journal(folder: Path, name: str, *operations: Operation, is_over: bool = True) -> None:
    writer = JournalWriter(folder / f"{name}.jsonl")
    for operation in (*operations, *([{"op": "end", "run": name}] if is_over else [])):
        writer.append({"at_ms": 1, **operation})
    writer.close()


def point(name: str, step: int) -> Operation:
    return {"op": "metrics", "run": "r", "points": [[name, 1.0, step]]}


def test_a_run_that_is_over_is_delivered_and_forgotten(tmp_path: Path):
    tracker = Tracker()
    journal(tmp_path, "own", {"op": "open", "run": "r"}, {"op": "close", "run": "r"})
    Delivery(tmp_path, lambda: tracker).follow("own")
    assert [operation["op"] for operation in tracker.told] == ["open", "close"]
    assert not list(tmp_path.glob("own*.jsonl"))


def test_neighbouring_metrics_of_a_run_become_one_call_and_keep_their_times(tmp_path: Path):
    tracker = Tracker()
    journal(tmp_path, "own", point("a", 0), point("a", 1), {"op": "close", "run": "r"}, point("a", 2))
    Delivery(tmp_path, lambda: tracker).follow("own")
    assert [operation.get("points") for operation in tracker.told] == [
        [["a", 1.0, 0, 1], ["a", 1.0, 1, 1]],
        None,
        [["a", 1.0, 2, 1]],
    ]


def test_an_outage_during_the_run_is_waited_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    tracker = Tracker(num_outages=3)
    writer = JournalWriter(tmp_path / "own.jsonl")
    writer.append({"op": "open", "run": "r", "at_ms": 1})
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if len(pauses) == 4:
            writer.append({"op": "end", "run": "own"})

    monkeypatch.setattr(delivery.time, "sleep", sleep)
    Delivery(tmp_path, lambda: tracker).follow("own")
    assert len(tracker.told) == 1
    assert pauses[:3] == [1, 2, 4]


def test_what_an_outage_at_the_end_kept_back_is_delivered_by_the_next_run(tmp_path: Path):
    journal(tmp_path, "own", {"op": "open", "run": "r"}, {"op": "close", "run": "r"})
    Delivery(tmp_path, lambda: Tracker(num_outages=1)).follow("own")
    assert JournalReader(tmp_path / "own.jsonl").state.problem == "ConnectionError: connection refused"
    tracker = Tracker()
    Delivery(tmp_path, lambda: tracker).leftovers("next")
    assert [operation["op"] for operation in tracker.told][:2] == ["open", "close"]
    assert not list(tmp_path.glob("own*.jsonl"))


def test_runs_of_a_process_that_was_killed_are_closed_as_killed(tmp_path: Path):
    journal(tmp_path, "dead", {"op": "open", "run": "r"}, is_over=False)
    tracker = Tracker()
    Delivery(tmp_path, lambda: tracker).leftovers("own")
    assert tracker.told[-1] == {"op": "close", "run": "r", "status": "KILLED"}


def test_the_journal_of_a_run_that_still_runs_is_left_alone(tmp_path: Path):
    writer = JournalWriter(tmp_path / "other.jsonl")
    writer.append({"op": "open", "run": "r", "at_ms": 1})
    tracker = Tracker()
    Delivery(tmp_path, lambda: tracker).leftovers("own")
    assert tracker.told == []


def test_what_the_tracker_will_never_take_is_put_aside_with_its_reason(tmp_path: Path):
    tracker = Tracker(refused="metrics")
    journal(tmp_path, "own", point("bad name", 0), {"op": "close", "run": "r"})
    Delivery(tmp_path, lambda: tracker).follow("own")
    assert [operation["op"] for operation in tracker.told] == ["close"]
    assert '"reason": "MlflowException: no such thing"' in (tmp_path / "own.rejected.jsonl").read_text()
