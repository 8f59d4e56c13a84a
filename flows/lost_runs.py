"""Flow runs whose process was killed end as Crashed, not as Running for ever (ORCHESTRATION P3).

Two ways: while the server lives, an automation acts on a run whose heartbeats have stopped; when the platform starts,
what a dead process of an earlier platform left open is closed at once.

Not covered: runs that were started on another machine are left to the automation.
"""

import os
from datetime import timedelta
from pathlib import Path

from prefect.client.orchestration import PrefectClient
from prefect.client.schemas.filters import (
    FlowRunFilter,
    FlowRunFilterState,
    FlowRunFilterStateType,
)
from prefect.client.schemas.objects import FlowRun, StateType
from prefect.events.actions import ChangeFlowRunState
from prefect.events.schemas.automations import AutomationCore, EventTrigger, Posture
from prefect.settings import get_current_settings
from prefect.states import Crashed

AUTOMATION = "lost runs end as crashed"
MISSED_HEARTBEATS = 3
PAGE_RUNS = 200
_FINAL = ("Completed", "Failed", "Cancelled", "Crashed", "Paused", "Suspended")
_HEARTBEAT = "prefect.flow-run.heartbeat"


async def watch_heartbeats(client: PrefectClient) -> None:
    """Create the automation, or bring it up to date. One that is as it should be stays: it knows who was heard when."""
    wanted = _automation(get_current_settings().flows.heartbeat_frequency or 60)
    all_present = await client.read_automations_by_name(AUTOMATION)
    if [_content(present) for present in all_present] == [_content(wanted)]:
        return
    for present in all_present:
        await client.delete_automation(present.id)
    await client.create_automation(wanted)


def _content(automation: AutomationCore) -> dict[str, object]:
    content = automation.model_dump(include={"name", "description", "enabled", "trigger", "actions"})
    content["trigger"].pop("id", None)
    return content


def _automation(heartbeat_s: int) -> AutomationCore:
    return AutomationCore(
        name=AUTOMATION,
        description=f"A run that has sent no heartbeat for {MISSED_HEARTBEATS * heartbeat_s} s has lost its process.",
        trigger=EventTrigger(
            after={_HEARTBEAT},
            expect={_HEARTBEAT, *(f"prefect.flow-run.{state}" for state in _FINAL)},
            match={"prefect.resource.id": "prefect.flow-run.*"},
            for_each={"prefect.resource.id"},
            posture=Posture.Proactive,
            threshold=1,
            within=timedelta(seconds=MISSED_HEARTBEATS * heartbeat_s),
        ),
        actions=[
            ChangeFlowRunState(
                state=StateType.CRASHED, message="its process was lost: no heartbeat; run it again to go on from there"
            )
        ],
    )


async def close_dead_runs(client: PrefectClient) -> int:
    """Close the open runs of processes that are gone, and what is open inside runs that are over; returns how many."""
    dead = [run for run in await _open_runs(client) if is_dead(run)]
    for run in dead:
        await _close(client, run)
    inside = [run for run in await _open_runs(client) if await _is_left_inside(client, run)]
    for run in inside:
        await _close(client, run)
    return len(dead) + len(inside)


async def _open_runs(client: PrefectClient) -> list[FlowRun]:
    is_open = FlowRunFilterState(type=FlowRunFilterStateType(any_=[StateType.RUNNING, StateType.CANCELLING]))
    return await client.read_flow_runs(flow_run_filter=FlowRunFilter(state=is_open), limit=PAGE_RUNS)


async def _is_left_inside(client: PrefectClient, run: FlowRun) -> bool:
    """True for a run that had no process of its own, when the run that it was part of is over."""
    if run.parent_task_run_id is None or run.deployment_id is not None:
        return False
    part = await client.read_task_run(run.parent_task_run_id)
    if part.flow_run_id is None:
        return False
    whole = await client.read_flow_run(part.flow_run_id)
    return whole.state is not None and whole.state.is_final()


async def _close(client: PrefectClient, run: FlowRun) -> None:
    message = "its process was gone when the platform started; run it again to go on from there"
    await client.set_flow_run_state(run.id, Crashed(message=message), force=True)


def is_dead(run: FlowRun) -> bool:
    """True for a run of a process of this machine that does not execute flows any more."""
    if not run.infrastructure_pid:
        return False
    pid = run.infrastructure_pid.rpartition(":")[2]
    return pid.isdigit() and not _executes_a_flow(int(pid))


def _executes_a_flow(pid: int) -> bool:
    try:
        words = (Path("/proc") / str(pid) / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return pid != os.getpid() and any(b"prefect" in word for word in words)
