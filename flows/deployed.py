"""The flows that prefect.yaml deploys: `lifecycle`, `retrain`, one per stage. A worker imports this and runs one.

Each begins with a preflight, then goes the way of `glmflow run`: the same session, tracking, report and cache. The
stages' flows are made when they are asked for, so that a run pays for the imports of one.
"""

import time
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

from prefect import flow, get_run_logger, runtime, task
from prefect.artifacts import create_markdown_artifact
from prefect.cache_policies import NO_CACHE
from prefect.flows import Flow

from flows.console import LogConsole
from flows.decision_page import decision_page
from flows.forms import (
    Alignment,
    Documents,
    Label,
    Pretraining,
    RecipeName,
    RetrainOptions,
    Seed,
    SettingLines,
    Until,
    changes,
    filled_in,
)
from flows.launch import StageCall
from flows.lifecycle import run_plan
from flows.plan import Step, until
from flows.platform import Platform
from flows.prefect_api import PrefectApi
from flows.preflight import COPIES, check, disk_problem, missing_problems, num_bytes_in, source_problem
from flows.recipes import Recipe
from flows.retraining import Retraining, RetrainRequest
from flows.run import LifecycleRun, RunRequest
from flows.run_page import markdown
from flows.session import Session
from flows.source_manifest import read_sources
from flows.stage_flows import run_stage
from flows.stop import StopSwitch
from flows.summary import Summary
from flows.tracker_pages import TrackerPages
from infra.artifacts import SourceManifest
from infra.lineage import Lineage
from infra.settings import Settings, go_offline, read_settings
from infra.stores.opening import open_store
from stages import STAGE_NAMES, load_stage
from stages.contract import Stage, StageModel, json_of
from stages.execution import refs_in

_OFF: Mapping[str, Any] = {"persist_result": False, "cache_policy": NO_CACHE}  # our store is the cache


@flow(name="lifecycle", flow_run_name="{recipe}-to-{until}-seed-{seed}", persist_result=False)
def lifecycle(
    recipe: RecipeName = "demo",
    seed: Seed = 0,
    until: Until = "release",
    documents: Documents = Documents(),  # noqa: B008  frozen
    pretraining: Pretraining = Pretraining(),  # noqa: B008
    alignment: Alignment = Alignment(),  # noqa: B008
    settings: SettingLines = [],  # noqa: B006  Prefect copies it
) -> None:
    """Documents in, a released model out: every stage of a recipe, up to the one named in `until`."""
    asked_at_s, lines = time.monotonic(), [*changes(documents, pretraining, alignment), *settings]
    steps = preflight(recipe, lines, documents, until)
    home = read_settings()
    sources = read_sources(documents.paths(), home, open_store(home))
    params = dict(line.split("=", 1) for line in lines)
    request = RunRequest(recipe, seed, steps, params, asked_at_s, _tags())
    _run(request, home, sources, lambda session: run_plan(session, seed))


@flow(name="retrain", flow_run_name="{recipe}-seed-{seed}", persist_result=False)
def retrain(
    recipe: RecipeName = "demo",
    seed: Seed = 0,
    documents: Documents = Documents(),  # noqa: B008  frozen
    options: RetrainOptions = RetrainOptions(),  # noqa: B008
    settings: SettingLines = [],  # noqa: B006  Prefect copies it
) -> None:
    """Changed documents in; a challenger is trained, and promoted only if it beats the champion."""
    asked_at_s, lines = time.monotonic(), [*changes(documents), *settings]
    preflight(recipe, lines, documents, "release")
    home = read_settings()
    store, lineage = open_store(home), Lineage(home.resolved_lineage_url())
    request = RetrainRequest(
        recipe,
        filled_in(recipe, lines),
        seed,
        dict(line.split("=", 1) for line in lines),
        asked_at_s,
        _tags(),
        accepts_drift=options.accept_drift,
        is_forced=options.force,
        freezes_again=options.freeze_again,
    )
    retraining = Retraining(request, read_sources(documents.paths(), home, store), home, store, lineage)
    row = retraining.settled()
    if row is None:
        row = retraining.conclude(_run(retraining.run_request, home, retraining.sources, retraining.course))
    create_markdown_artifact(decision_page(row), key="decision", description=row.outcome)
    get_run_logger().info("%s: %s", row.outcome, row.reason)


@task(name="preflight", **_OFF)
def preflight(recipe: str, lines: list[str], documents: Documents, last: str) -> tuple[Step, ...]:
    """The plan. Raises BadSpecError for what cannot go well."""
    settings, paths = read_settings(), documents.paths()
    problem = source_problem(paths, settings)
    num_bytes = 0 if problem else num_bytes_in(paths or [settings.sources_dir])
    check([problem, disk_problem(settings, COPIES * num_bytes)])
    filled: Recipe = filled_in(recipe, lines)
    return until(filled.steps(), last)


@task(name="preflight", **_OFF)
def preflight_stage(inputs: StageModel) -> None:
    """Raises BadSpecError for references that lead nowhere and for too little disk."""
    settings = read_settings()
    refs = list(refs_in(json_of(inputs)))
    num_bytes = sum(ref.num_bytes for ref in refs)
    check([*missing_problems(refs, open_store(settings)), disk_problem(settings, COPIES * num_bytes)])


def __getattr__(name: str) -> Flow[..., None]:
    """The deployable flow of a stage, by the stage's name."""
    if name not in STAGE_NAMES:
        raise AttributeError(name)
    return deployed_stage(name)


@cache
def deployed_stage(name: str) -> Flow[..., None]:
    """A stage alone: its config, its inputs as references, a seed."""
    stage = load_stage(name)
    defaults: StageModel = stage.config()

    def run(inputs: StageModel, config: StageModel = defaults, label: Label = name, seed: Seed = 0) -> None:
        asked_at_s = time.monotonic()
        preflight_stage(inputs)
        call = StageCall(label, stage, config, inputs, seed)
        request = RunRequest(name, seed, (Step(label, name, config, {}),), {}, asked_at_s, _tags())
        _run(request, read_settings(), None, _course(call, get_run_logger().info))

    _give_types(run, stage)
    return flow(name=name, flow_run_name="{label}", persist_result=False)(run)


def _give_types(run: Callable[..., None], stage: Stage[Any, Any, Any]) -> None:
    """The stage's own models as the function's types."""
    run.__annotations__ |= {"config": stage.config, "inputs": stage.inputs}
    run.__doc__ = f"Stage `{stage.name}` alone; its inputs are references that a run's page shows."


def _course(call: StageCall, log: Callable[[str], None]) -> Callable[[Session], None]:
    def course(session: Session) -> None:
        run_stage(session, call, log)

    return course


def _tags() -> dict[str, str]:
    """The way from MLflow to Prefect."""
    run_id, url = str(runtime.flow_run.id), str(runtime.flow_run.ui_url or "")
    return {"prefect.flow_run_id": run_id, "mlflow.note.content": f"[Prefect run {run_id}]({url})"}


def _run(
    request: RunRequest, settings: Settings, sources: SourceManifest | None, course: Callable[[Session], None]
) -> Summary:
    """As `glmflow run` does it, inside the flow run that a worker started."""
    go_offline()
    log = get_run_logger().info
    sessions: list[Session] = []

    def remembered(session: Session) -> None:
        sessions.append(session)
        course(session)

    api, stop = PrefectApi(settings), StopSwitch(listens=False)
    store, lineage = open_store(settings), Lineage(settings.resolved_lineage_url())
    run = LifecycleRun(request, settings, api, stop, course=remembered)
    summary = run.run(sources, store, lineage, LogConsole(log))
    pages = TrackerPages(Platform(settings).mlflow_url, settings.credentials)
    create_markdown_artifact(markdown(summary, sessions[0].results, pages), key="run", description=summary.lifecycle)
    return summary
