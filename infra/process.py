"""Child processes: born with a log file in a session of their own, ended with everything they started.

Every process below a child carries a token in its environment, so that workers which left the process group (torchrun
starts them in sessions of their own) are found and ended too. `die_with_parent` is for the child's side.
"""

import ctypes
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Iterable, Sequence
from pathlib import Path

from infra.settings import OFFLINE_ENVIRONMENT

SOURCE_ROOT = Path(__file__).parent.parent
PARENT_PID_VARIABLE = "GLMFLOW_PARENT_PID"
TOKEN_VARIABLE = "GLMFLOW_PROCESS_TOKEN"
EXIT_STOPPED = 143
ORPHAN_GRACE_S = 120.0  # for the state of a process whose parent was killed
_PR_SET_PDEATHSIG = 1
_PARENT_POLL_S = 2.0
_PROC = Path("/proc")
_MAX_KILL_ROUNDS = 20
_KILL_TIMEOUT_S, _KILL_POLL_S = 5.0, 0.01


def spawn(
    command: Sequence[str],
    log_path: Path,
    environment: dict[str, str],
    *,
    pass_fds: Iterable[int] = (),
    keeps_log: bool = True,
    directory: Path | None = None,
) -> subprocess.Popen[bytes]:
    """A process in a session of its own, which writes to its own file and never to a pipe of ours.

    A full pipe cannot stop it (P2, P13). `keeps_log` appends to what an earlier process wrote there.
    """
    log_path.parent.mkdir(parents=True, exist_ok=True)
    with log_path.open("ab" if keeps_log else "wb") as log:
        return subprocess.Popen(
            list(command),
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,
            pass_fds=tuple(pass_fds),
            env=environment,
            cwd=directory,
        )


class ChildProcess:
    """A running command; nothing it started outlives `end`."""

    def __init__(
        self, command: Sequence[str], *, log_path: Path, environment: dict[str, str], pass_fds: Sequence[int] = ()
    ) -> None:
        self.token = uuid.uuid4().hex
        self.log_path = log_path
        self._popen = spawn(
            command,
            log_path,
            {**environment, PARENT_PID_VARIABLE: str(os.getpid()), TOKEN_VARIABLE: self.token},
            pass_fds=pass_fds,
        )

    @property
    def pid(self) -> int:
        """Process id, which is also the id of its process group."""
        return self._popen.pid

    def is_running(self) -> bool:
        """False once it has ended; it is not reaped yet, so its group id cannot be given to somebody else."""
        if self._popen.returncode is not None:
            return False
        flags = os.WEXITED | os.WNOHANG | os.WNOWAIT
        return os.waitid(os.P_PID, self.pid, flags) is None

    def peak_rss_bytes(self) -> int:
        """The highest memory use so far, of the process itself; 0 when it is gone."""
        try:
            status = (_PROC / str(self.pid) / "status").read_text()
        except OSError:
            return 0
        fields = [line.split() for line in status.splitlines() if line.startswith("VmHWM:")]
        return int(fields[0][1]) * 1024 if fields else 0

    def ask_to_stop(self) -> None:
        """SIGTERM to the process itself, which saves its state and ends its own workers."""
        if self.is_running():
            os.kill(self.pid, signal.SIGTERM)

    def wait(self, timeout_s: float, poll_s: float = 0.05) -> bool:
        """True when it ended within the time."""
        until = time.monotonic() + timeout_s
        while self.is_running():
            if time.monotonic() > until:
                return False
            time.sleep(poll_s)
        return True

    def end(self) -> int:
        """Kill whatever is left of it and of what it started; returns the exit code (negative: the signal)."""
        if self._popen.returncode is None:
            _kill_group(self.pid)
        kill_all_with(TOKEN_VARIABLE, self.token)
        return self._popen.wait()


def kill_all_with(variable: str, value: str) -> None:
    """SIGKILL to every process that has this in its environment; again, while they fork faster than we look.

    Returns when they have ended: a process that was killed loses its environment a moment before.
    """
    killed: dict[int, int | None] = {}
    for _ in range(_MAX_KILL_ROUNDS):
        pids = pids_with(variable, value)
        if not pids:
            break
        for pid in pids:
            killed[pid] = start_ticks(pid)
            send(pid, signal.SIGKILL)
    until = time.monotonic() + _KILL_TIMEOUT_S
    while any(t is not None and start_ticks(pid) == t for pid, t in killed.items()) and time.monotonic() < until:
        time.sleep(_KILL_POLL_S)


def start_ticks(pid: int) -> int | None:
    """When the process started, in clock ticks since boot; None for one that has ended, reaped or not."""
    fields = proc_stat(pid)
    return None if not fields or fields[0] in ("Z", "X") else int(fields[19])


def proc_stat(pid: int) -> list[str]:
    """proc(5), /proc/pid/stat from its third field on: state, parent, ..., start time (the 22nd); [] for none."""
    try:
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _kill_group(group_id: int) -> None:
    try:
        os.killpg(group_id, signal.SIGKILL)
    except ProcessLookupError:
        return


def send(pid: int, signal_number: int) -> None:
    """A signal to a process that may have ended already."""
    try:
        os.kill(pid, signal_number)
    except ProcessLookupError:
        return


def pids_with(variable: str, value: str) -> list[int]:
    """The processes of this machine that were started with this in their environment, and still run."""
    wanted = f"{variable}={value}".encode()
    return [int(entry.name) for entry in _PROC.iterdir() if entry.name.isdigit() and wanted in _environment_of(entry)]


def _environment_of(entry: Path) -> list[bytes]:
    try:
        return (entry / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or belongs to somebody else
        return []


def child_environment(**changes: str) -> dict[str, str]:
    """What a child of ours gets: our environment, our source tree first, and nothing that leads outside."""
    inherited = {k: v for k, v in os.environ.items() if k != "MLFLOW_RUN_ID"}  # it beats every parent (M2)
    paths = [str(SOURCE_ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**OFFLINE_ENVIRONMENT, **inherited, "PYTHONPATH": os.pathsep.join(paths), **changes}


def die_with_parent() -> None:
    """Ask the kernel for SIGTERM when the parent dies, and end for good if that was not obeyed in time."""
    parent = os.environ.get(PARENT_PID_VARIABLE)
    if parent is None:
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
    if os.getppid() != int(parent):  # it died before the call above
        raise SystemExit(EXIT_STOPPED)
    threading.Thread(target=_end_without, args=(int(parent),), name="parent-watch", daemon=True).start()


def _end_without(parent_pid: int) -> None:
    while os.getppid() == parent_pid:
        time.sleep(_PARENT_POLL_S)
    time.sleep(ORPHAN_GRACE_S)
    if os.getpgrp() == os.getpid():
        os.killpg(0, signal.SIGKILL)
    os.kill(os.getpid(), signal.SIGKILL)
