"""Lost are the runs of a process that executes flows no more. (On a real server: tests/e2e/test_platform.py.)"""

import subprocess
import sys
import uuid
from datetime import timedelta

import pytest
from prefect.client.schemas.objects import FlowRun

from flows.lost_runs import MISSED_HEARTBEATS, _automation, is_dead


def run_of(pid: str | None) -> FlowRun:
    return FlowRun(flow_id=uuid.uuid4(), infrastructure_pid=pid)


def ended_pid() -> int:
    with subprocess.Popen(["true"]) as process:
        process.wait()
    return process.pid


def test_a_run_of_a_process_that_has_ended_is_lost():
    assert is_dead(run_of(str(ended_pid()))) and is_dead(run_of(f"host:{ended_pid()}"))


def test_a_run_whose_process_id_somebody_else_has_is_lost():
    with subprocess.Popen(["sleep", "60"]) as stranger:
        assert is_dead(run_of(str(stranger.pid)))
        stranger.kill()


def test_a_run_of_a_process_that_lives_is_not():
    code = "import time; print(flush=True); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, "-m", "prefect.engine"], stdout=subprocess.PIPE) as engine:
        engine.stdout.readline()
        assert not is_dead(run_of(str(engine.pid)))
        engine.kill()


@pytest.mark.parametrize("pid", [None, "", "some-container"])
def test_a_run_that_is_not_of_a_process_here_is_left_to_its_heartbeat(pid: str | None):
    assert not is_dead(run_of(pid))


def test_a_run_is_lost_only_after_several_heartbeats_were_missed():
    automation = _automation(30)
    assert automation.trigger.within == timedelta(seconds=30 * MISSED_HEARTBEATS) and MISSED_HEARTBEATS > 1
    assert {"prefect.flow-run.heartbeat", "prefect.flow-run.Completed"} <= automation.trigger.expect
