"""A daemon outlives its starter, is found again, and is ended with everything below it; a stranger is never touched."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from infra.daemon import Daemon, DaemonRecord
from infra.process import send
from tests.support.launched_stage import is_alive

ROOT = Path(__file__).parents[3]
SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
FAMILY = """
import signal, subprocess, time
stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(stranger.pid, flush=True)
time.sleep(60)
"""


SUPERVISOR = """
import signal, subprocess, sys, time
code = '''
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (time.sleep(0.3), print("saved", flush=True), sys.exit()))
print("child", flush=True)
time.sleep(60)
'''
subprocess.Popen([sys.executable, "-c", code])
signal.signal(signal.SIGTERM, lambda *_: (print('supervisor', flush=True), sys.exit()))
while True: time.sleep(0.1)
"""


@pytest.fixture
def daemon(tmp_path: Path) -> Iterator[Daemon]:
    daemon = Daemon(tmp_path / "platform", "toy")
    yield daemon
    daemon.stop(0.0)


def start(daemon: Daemon, code: str) -> DaemonRecord:
    record = daemon.start([sys.executable, "-c", code], dict(os.environ), "http://127.0.0.1:1")
    until = time.monotonic() + 20
    while not daemon.log_path.read_text().endswith("\n"):
        assert time.monotonic() < until
        time.sleep(0.01)
    return record


def test_it_is_found_again_by_its_record_and_its_memory_is_known(daemon: Daemon):
    assert daemon.running() is None and daemon.stop(0.0) is False
    record = start(daemon, SLEEP)
    assert daemon.running() == record and record.pids() == [record.pid]
    assert record.rss_bytes() > 1_000_000 and record.url == "http://127.0.0.1:1"


def test_it_outlives_the_command_that_started_it(daemon: Daemon, tmp_path: Path):
    code = (
        "import os, sys; from pathlib import Path; from infra.daemon import Daemon\n"
        f"Daemon(Path(sys.argv[1]), 'toy').start([sys.executable, '-c', {SLEEP!r}], dict(os.environ), 'x')"
    )
    subprocess.run([sys.executable, "-c", code, str(tmp_path / "platform")], check=True, cwd=ROOT)
    record = daemon.running()
    assert record is not None
    daemon.stop(5.0)
    assert not is_alive(record.pid) and daemon.record() is None


def test_what_ignores_the_stop_and_what_left_the_group_end_too(daemon: Daemon):
    record = start(daemon, FAMILY)
    stranger = int(daemon.log_path.read_text())
    assert set(record.pids()) == {record.pid, stranger}
    assert daemon.stop(0.2) is True
    assert not is_alive(record.pid) and not is_alive(stranger)
    assert daemon.stop(0.2) is False


def test_a_process_id_that_somebody_else_got_is_never_signalled(daemon: Daemon):
    record = start(daemon, SLEEP)
    daemon.stop(5.0)
    with subprocess.Popen(["sleep", "60"], start_new_session=True) as somebody:
        try:
            path = daemon.log_path.with_suffix(".json")
            path.write_text(record.model_copy(update={"pid": somebody.pid}).model_dump_json())
            assert daemon.running() is None
            daemon.stop(0.0)
            assert somebody.poll() is None
        finally:
            send(somebody.pid, signal.SIGKILL)


def test_a_record_that_was_cut_off_is_none(daemon: Daemon):
    daemon.log_path.parent.mkdir()
    daemon.log_path.with_suffix(".json").write_text('{"pid": 1')
    assert daemon.record() is None


def test_a_second_start_ends_what_the_first_left(daemon: Daemon):
    first = start(daemon, SLEEP)
    second = start(daemon, SLEEP)
    assert not is_alive(first.pid) and daemon.running() == second


def test_children_first_lets_them_save_their_state_before_the_process_is_told(daemon: Daemon):
    record = start(daemon, SUPERVISOR)
    assert daemon.stop(10.0, children_first=True) is True
    assert daemon.log_path.read_text().split() == ["child", "saved", "supervisor"] and record.pids() == []
