"""A process that outlives the command that started it, and is found again by a record on disk.

A record names the process by its id, its start time and the machine's boot, so that a process id that was given to
somebody else is never signalled. Everything below a daemon carries a token in its environment; what left its process
group is found by it.

Not covered: machines without /proc.
"""

import os
import signal
import time
import uuid
from collections.abc import Callable, Iterable, Sequence
from datetime import UTC, datetime
from pathlib import Path

from pydantic import BaseModel, ConfigDict, ValidationError

from infra.process import (
    PARENT_PID_VARIABLE,
    TOKEN_VARIABLE,
    kill_all_with,
    pids_with,
    proc_stat,
    send,
    spawn,
    start_ticks,
)

DAEMON_VARIABLE = "GLMFLOW_DAEMON_TOKEN"  # children of ours replace TOKEN_VARIABLE, and keep this one
_PROC = Path("/proc")
_POLL_S = 0.05
_PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")


class DaemonRecord(BaseModel):
    """Which process it is, since when, and where it answers."""

    model_config = ConfigDict(frozen=True, extra="forbid")
    pid: int
    start_ticks: int  # since boot
    boot_id: str
    token: str
    started_at: datetime
    url: str

    def is_running(self) -> bool:
        """True while this very process lives."""
        return self.boot_id == _boot_id() and self.start_ticks == start_ticks(self.pid)

    def pids(self) -> list[int]:
        """The process and everything below it."""
        return pids_with(DAEMON_VARIABLE, self.token)

    def rss_bytes(self) -> int:
        """Memory of all of them; pages that they share are counted once a process."""
        return sum(_rss_bytes(pid) for pid in self.pids())


class Daemon:
    """One daemon by its name: its record and its log lie in `folder`."""

    def __init__(self, folder: Path, name: str) -> None:
        self.name = name
        self.log_path = folder / f"{name}.log"
        self._record_path = folder / f"{name}.json"

    def record(self) -> DaemonRecord | None:
        """The last record, whether or not its process still lives."""
        try:
            return DaemonRecord.model_validate_json(self._record_path.read_bytes())
        except (FileNotFoundError, ValidationError):  # none, or cut off while it was written
            return None

    def running(self) -> DaemonRecord | None:
        """The record of the process, if it lives."""
        record = self.record()
        return record if record is not None and record.is_running() else None

    def start(
        self, command: Sequence[str], environment: dict[str, str], url: str, pass_fds: Iterable[int] = ()
    ) -> DaemonRecord:
        """Start the process in a session of its own; what an earlier one left running is ended first."""
        self.stop(0.0)
        token = uuid.uuid4().hex
        given = {k: v for k, v in environment.items() if k not in (PARENT_PID_VARIABLE, TOKEN_VARIABLE)}
        process = spawn(
            command,
            self.log_path,
            {**given, DAEMON_VARIABLE: token},
            pass_fds=pass_fds,
            keeps_log=False,
            directory=self.log_path.parent,
        )
        record = DaemonRecord(
            pid=process.pid,
            start_ticks=start_ticks(process.pid) or 0,
            boot_id=_boot_id(),
            token=token,
            started_at=datetime.now(UTC),
            url=url,
        )
        partial = self._record_path.with_suffix(".partial")
        partial.write_text(record.model_dump_json(indent=2))
        partial.replace(self._record_path)
        return record

    def stop(self, grace_s: float, *, children_first: bool = False) -> bool:
        """SIGTERM to the process, then to what it left, then SIGKILL; each has `grace_s`. False: nothing ran.

        With `children_first` the process is held still while its children end, so that it starts no others meanwhile.
        """
        record = self.record()
        if record is None:
            return False
        was_running = bool(record.pids())
        if record.is_running() and children_first:
            self._stop_children(record, grace_s)
        if record.is_running():
            send(record.pid, signal.SIGTERM)
            _wait(lambda: not record.is_running(), grace_s)
        for pid in record.pids():
            send(pid, signal.SIGTERM)
        _wait(lambda: not record.pids(), grace_s)
        kill_all_with(DAEMON_VARIABLE, record.token)
        self._record_path.unlink(missing_ok=True)
        return was_running

    @staticmethod
    def _stop_children(record: DaemonRecord, grace_s: float) -> None:
        children = [pid for pid in record.pids() if _parent_pid(pid) == record.pid]
        send(record.pid, signal.SIGSTOP)
        for pid in children:
            send(pid, signal.SIGTERM)
        _wait(lambda: set(record.pids()) <= {record.pid}, grace_s)
        send(record.pid, signal.SIGCONT)


def _wait(condition: Callable[[], bool], timeout_s: float) -> None:
    until = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < until:
        time.sleep(_POLL_S)


def _boot_id() -> str:
    return (_PROC / "sys/kernel/random/boot_id").read_text().strip()


def _parent_pid(pid: int) -> int | None:
    fields = proc_stat(pid)
    return int(fields[1]) if fields else None


def _rss_bytes(pid: int) -> int:
    try:
        return int((_PROC / str(pid) / "statm").read_text().split()[1]) * _PAGE_BYTES
    except OSError:
        return 0
