"""The lifecycle: the stages of a plan, one after the other, as a Prefect flow of stage flows."""

from collections.abc import Mapping, Sequence
from typing import Any

from prefect import flow

from flows.plan import SOURCES, Step, wired
from flows.session import Session, current
from flows.stage_flows import stage_flow
from infra.artifacts import ArtifactRef
from stages import load_stage
from stages.contract import json_of


@flow(name="lifecycle", flow_run_name="{recipe}-{lifecycle_id}", persist_result=False, validate_parameters=False)
def lifecycle(recipe: str, lifecycle_id: str, seed: int) -> None:
    """Run the session's plan."""
    run_plan(current(), seed)


def run_plan(session: Session, seed: int) -> None:
    """The session's whole plan, in whichever flow this is called."""
    run_steps(session, session.steps, from_outside(session), seed)


def from_outside(session: Session) -> dict[str, Mapping[str, Any]]:
    """What the first steps are wired to."""
    if session.sources is None:
        raise ValueError("plan: want the session's sources, got none")
    return {SOURCES: {"manifest": json_of(session.sources)}}


def run_steps(session: Session, steps: Sequence[Step], made: dict[str, Mapping[str, Any]], seed: int) -> None:
    """Each step as a flow of its own; its outputs go into `made`, under its label."""
    for step in steps:
        inputs = load_stage(step.stage).inputs.model_validate(wired(step, made))
        result = stage_flow(step.stage)(step.label, step.config, inputs, seed)
        made[step.label] = result.outputs
        _remember(session)


def _remember(session: Session) -> None:
    """The lineage knows after each stage how far this run came."""
    session.lineage.save_lifecycle(
        session.lifecycle_id,
        stages=[
            {
                "stage": result.stage,
                "label": result.label,
                "key": result.key,
                "wall_s": result.wall_s,
                "cached": result.is_cached,
                "outputs": {name: _short(value) for name, value in result.outputs.items()},
            }
            for result in session.results
        ],
    )


def _short(value: Any) -> str:
    return ArtifactRef.model_validate(value).short
