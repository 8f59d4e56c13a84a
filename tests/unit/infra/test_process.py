"""A child process is ended with everything it started, and never outlives its parent."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.process import PARENT_PID_VARIABLE, ChildProcess, child_environment, kill_all_with
from tests.support.launched_stage import is_alive

ROOT = Path(__file__).parents[3]
SLEEP = "import time; print('ready', flush=True); time.sleep(60)"
FAMILY = """
import subprocess, sys
child = subprocess.Popen(["sleep", "60"])
stranger = subprocess.Popen(["sleep", "60"], start_new_session=True)
print(child.pid, stranger.pid, flush=True)
sys.stdin.read()
import time; time.sleep(60)
"""
PARENT = f"""
import os, sys
from pathlib import Path
from infra.process import ChildProcess
code = "from infra.process import die_with_parent; die_with_parent(); {SLEEP}"
child = ChildProcess([sys.executable, "-c", code], log_path=Path(sys.argv[1]), environment=dict(os.environ))
print(child.pid, flush=True)
child.wait(60)
"""


def start(code: str, tmp_path: Path) -> ChildProcess:
    return ChildProcess([sys.executable, "-c", code], log_path=tmp_path / "log", environment=dict(os.environ))


def wait_for(path: Path) -> str:
    for _ in range(1000):
        if path.is_file() and path.read_text().endswith("\n"):
            return path.read_text()
        time.sleep(0.01)
    raise AssertionError(f"{path} stays empty")


def test_the_exit_code_is_the_childs(tmp_path: Path):
    child = start("print('said'); raise SystemExit(7)", tmp_path)
    assert child.wait(20)
    assert child.end() == 7
    assert (tmp_path / "log").read_text() == "said\n"


def test_a_stop_is_a_sigterm_to_the_process(tmp_path: Path):
    child = start(SLEEP, tmp_path)
    wait_for(tmp_path / "log")
    assert child.is_running() and child.peak_rss_bytes() > 1_000_000
    child.ask_to_stop()
    assert child.wait(20)
    assert child.end() == -signal.SIGTERM


def test_the_end_reaches_children_in_the_group_and_outside_of_it(tmp_path: Path):
    child = start(FAMILY, tmp_path)
    pids = [int(text) for text in wait_for(tmp_path / "log").split()]
    assert all(is_alive(pid) for pid in pids)
    child.end()
    assert not any(is_alive(pid) for pid in [child.pid, *pids])


def test_ending_twice_gives_the_same_code(tmp_path: Path):
    child = start("pass", tmp_path)
    assert child.wait(20)
    assert child.end() == child.end() == 0


def test_a_child_dies_when_its_parent_is_killed(tmp_path: Path):
    log = tmp_path / "log"
    parent = subprocess.Popen([sys.executable, "-c", PARENT, str(log)], stdout=subprocess.PIPE, text=True, cwd=ROOT)
    child_pid = int(parent.stdout.readline())
    wait_for(log)
    os.kill(parent.pid, signal.SIGKILL)
    parent.communicate()
    for _ in range(500):
        if not is_alive(child_pid):
            return
        time.sleep(0.01)
    raise AssertionError("the child lives on")


def test_a_child_whose_parent_died_before_it_could_ask_ends_at_once(tmp_path: Path):
    code = "from infra.process import die_with_parent; die_with_parent(); print('lives on')"
    environment = {**os.environ, PARENT_PID_VARIABLE: "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, cwd=ROOT, capture_output=True, check=False)
    assert (done.returncode, done.stdout) == (143, b"")


def test_a_child_of_ours_finds_our_sources_stays_offline_and_knows_no_foreign_run(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("MLFLOW_RUN_ID", "somebody-else")
    monkeypatch.setenv("PYTHONPATH", "/theirs")
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    environment = child_environment(GLMFLOW_THREADS="3")
    assert environment["PYTHONPATH"] == f"{ROOT}{os.pathsep}/theirs"
    assert "MLFLOW_RUN_ID" not in environment and environment["GLMFLOW_THREADS"] == "3"
    assert environment["DO_NOT_TRACK"] == "true" and environment["HF_HUB_OFFLINE"] == "0"  # what is set stays


def test_what_was_killed_has_ended_when_the_call_returns():
    code = "x = bytearray(400_000_000); print('ready', flush=True); import time; time.sleep(60)"  # takes a while to die
    environment = {**os.environ, "TOY_TOKEN": "kill-me"}
    with subprocess.Popen([sys.executable, "-c", code], env=environment, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None and process.stdout.readline() == b"ready\n"
        kill_all_with("TOY_TOKEN", "kill-me")
        assert not is_alive(process.pid)
