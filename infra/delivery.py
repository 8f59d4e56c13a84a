"""Deliver journals to MLflow: `python -m infra.delivery --own LIFECYCLE`, started by infra/tracking.

First what earlier runs left behind, oldest first (runs that were still open are closed as KILLED), then the own
journal while it grows. An outage is waited out with growing pauses; once the own run has said that it is over, the
first outage ends the process and the rest stays on disk. An operation that the tracker refuses for good is put aside in
`<lifecycle>.rejected.jsonl`, so that it cannot hold up the others.
"""

import argparse
import fcntl
import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from mlflow.exceptions import MlflowException
from sqlalchemy.exc import SQLAlchemyError

from infra.errors import GlmflowError
from infra.journal import JournalReader, Operation
from infra.mlflow_runs import MlflowRuns
from infra.process import die_with_parent
from infra.settings import Settings, go_offline, read_settings
from infra.tracking import artifact_root, tracking_dir

POLL_S = 0.5
MIN_PAUSE_S, MAX_PAUSE_S = 1.0, 30.0
# requests.RequestException is an OSError; MLflow wraps most of them.
OUTAGES = (MlflowException, SQLAlchemyError, GlmflowError, OSError)
_REFUSALS = ("INVALID_PARAMETER_VALUE", "BAD_REQUEST", "RESOURCE_DOES_NOT_EXIST", "RESOURCE_ALREADY_EXISTS")


class Sink(Protocol):
    """Where operations go. Raises one of OUTAGES."""

    def apply(self, operation: Operation, reader: JournalReader) -> None:
        """Do what one operation says; doing it twice must do no harm."""


class Delivery:
    """Delivers the journals of one folder."""

    def __init__(self, folder: Path, connect: Callable[[], Sink]) -> None:
        self.folder = folder
        self._connect = connect
        self._sink: Sink | None = None

    def leftovers(self, own: str) -> None:
        """Deliver what earlier runs could not. Raises one of OUTAGES."""
        for path in sorted(self.folder.glob("*.jsonl")):
            if path.stem == own or path.stem.endswith(".rejected"):
                continue
            with _exclusive(path) as is_ours:
                if not is_ours or not path.is_file():
                    continue
                reader = JournalReader(path)
                if not reader.is_abandoned():
                    continue
                self.deliver(reader)
                for run in reader.state.open_runs:
                    self.apply({"op": "close", "run": run, "status": "KILLED"}, reader)
                reader.remove()

    def follow(self, own: str) -> None:
        """Deliver the own journal until it says that the run is over."""
        path = self.folder / f"{own}.jsonl"
        with _exclusive(path):
            reader, pause_s = JournalReader(path), MIN_PAUSE_S
            while True:
                try:
                    if self.deliver(reader):
                        reader.remove()
                        return
                    pause_s = MIN_PAUSE_S
                    time.sleep(POLL_S)
                except OUTAGES as error:
                    reader.state.problem = _sentence(error)
                    reader.save()
                    if _is_over(reader):
                        return
                    time.sleep(pause_s)
                    pause_s = min(MAX_PAUSE_S, pause_s * 2)

    def deliver(self, reader: JournalReader) -> bool:
        """Deliver all that is there; True when the run said that it is over. Raises one of OUTAGES."""
        for operation, offset in _merged(list(reader.pending())):
            if operation["op"] == "end":
                return True
            self.apply(operation, reader)
            reader.state.offset = offset
            reader.state.problem = ""
            reader.save()
        return False

    def apply(self, operation: Operation, reader: JournalReader) -> None:
        """Tell the tracker, or put aside what it will never take."""
        if self._sink is None:
            self._sink = self._connect()
        try:
            self._sink.apply(operation, reader)
        except MlflowException as error:
            if error.error_code not in _REFUSALS:
                raise
            reader.state.num_rejected += 1
            with reader.path.with_suffix(".rejected.jsonl").open("a") as file:
                file.write(json.dumps({"reason": _sentence(error), **operation}) + "\n")


def _merged(pending: list[tuple[Operation, int]]) -> Iterator[tuple[Operation, int]]:
    """Neighbouring metrics of one run become one operation."""
    waiting: list[list[object]] = []
    for (operation, offset), (following, _) in pairwise([*pending, ({"op": "", "run": ""}, 0)]):
        if operation["op"] != "metrics":
            yield operation, offset
            continue
        waiting += [[*point, operation["at_ms"]] for point in operation["points"]]
        if following["op"] != "metrics" or following["run"] != operation["run"]:
            yield {**operation, "points": waiting}, offset
            waiting = []


def _is_over(reader: JournalReader) -> bool:
    return any(operation["op"] == "end" for operation, _ in reader.pending())


def _sentence(error: BaseException) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:200]}"


@contextmanager
def _exclusive(path: Path) -> Iterator[bool]:
    """True in the block when nobody else works on this path."""
    with path.with_suffix(".lock").open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def mlflow_sink(settings: Settings) -> Sink:
    """The tracker that the settings name."""
    return MlflowRuns(settings.resolved_tracking_uri(), artifact_root(settings))


def main(argv: list[str] | None = None) -> None:
    """Deliver until the own run is over."""
    parser = argparse.ArgumentParser(prog="python -m infra.delivery")
    parser.add_argument("--own", required=True, help="lifecycle id of the run that started this process")
    args = parser.parse_args(argv)
    die_with_parent()
    go_offline()
    settings = read_settings()
    delivery = Delivery(tracking_dir(settings), lambda: mlflow_sink(settings))
    try:
        delivery.leftovers(args.own)
    except OUTAGES as error:
        print(f"earlier runs wait: {_sentence(error)}", flush=True)  # noqa: T201  this process's log
    delivery.follow(args.own)


if __name__ == "__main__":
    main()
