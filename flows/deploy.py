"""What prefect.yaml declares, made true on a Prefect server: deployments, their forms, their schedules.

The file is read as Prefect reads it (`{{ $NAME }}` is the environment's value), in a strict subset: an unknown key is
refused. A deployment carries the tag `glmflow`; one that has the tag and is not in the file any more is removed, and a
deployment's schedules become those of the file, by slug.
"""

import inspect
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

import yaml
from prefect.client.orchestration import PrefectClient, get_client
from prefect.client.schemas.actions import DeploymentScheduleCreate, WorkPoolCreate
from prefect.client.schemas.filters import DeploymentFilter, DeploymentFilterTags
from prefect.client.schemas.objects import ConcurrencyLimitStrategy, ConcurrencyOptions
from prefect.client.schemas.schedules import CronSchedule, IntervalSchedule, RRuleSchedule
from prefect.exceptions import ObjectAlreadyExists, ObjectNotFound
from prefect.flows import Flow, load_flow_from_entrypoint
from prefect.utilities.callables import parameter_schema
from prefect.utilities.templating import apply_values
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator
from pydantic.fields import FieldInfo

from flows.lost_runs import close_dead_runs, watch_heartbeats
from infra.errors import BadSpecError
from infra.process import SOURCE_ROOT
from infra.settings import Settings
from stages.__main__ import describe

DEPLOY_FILE = SOURCE_ROOT / "prefect.yaml"
TAG = "glmflow"
PAGE_DEPLOYMENTS = 200
Schedule = CronSchedule | IntervalSchedule | RRuleSchedule


class _Declared(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid")


class ScheduleSpec(_Declared):
    """When a deployment starts by itself."""

    slug: str = Field(min_length=1, description="the schedule's name; it stays itself while the rest changes")
    timezone: str = Field(min_length=1, description="IANA name, as Europe/Berlin")
    cron: str | None = None
    interval: float | None = Field(default=None, gt=0, description="seconds")
    rrule: str | None = None
    active: bool = True
    parameters: dict[str, Any] = {}

    @model_validator(mode="after")
    def _says_when(self) -> Self:
        given = [name for name in ("cron", "interval", "rrule") if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"schedule {self.slug}: want one of cron, interval, rrule, got {given}")
        return self

    def schedule(self) -> Schedule:
        """As Prefect has it."""
        if self.cron is not None:
            return CronSchedule(cron=self.cron, timezone=self.timezone)
        if self.interval is not None:
            return IntervalSchedule(interval=self.interval, timezone=self.timezone)  # type: ignore[arg-type]
        return RRuleSchedule(rrule=self.rrule or "", timezone=self.timezone)


class ConcurrencySpec(_Declared):
    """How many runs of a deployment may go on at a time."""

    limit: int = Field(ge=1)
    collision_strategy: ConcurrencyLimitStrategy = ConcurrencyLimitStrategy.ENQUEUE


class WorkPoolSpec(_Declared):
    """Where a deployment's runs go."""

    name: str
    work_queue_name: str | None = None
    job_variables: dict[str, Any] = {}


class DeploymentSpec(_Declared):
    """One deployment of the file."""

    name: str
    entrypoint: str = Field(description="module path of the flow, as flows.deployed.lifecycle")
    description: str = ""
    tags: list[str] = []
    parameters: dict[str, Any] = {}
    work_pool: WorkPoolSpec
    schedules: list[ScheduleSpec] = []
    concurrency_limit: ConcurrencySpec | None = None
    pull: list[dict[str, Any]] | None = None

    @model_validator(mode="after")
    def _slugs_differ(self) -> Self:
        slugs = [schedule.slug for schedule in self.schedules]
        if len(set(slugs)) != len(slugs):
            raise ValueError(f"deployment {self.name}: want schedules with different slugs, got {slugs}")
        return self


class DeployFile(BaseModel):
    """prefect.yaml."""

    model_config = ConfigDict(frozen=True, extra="forbid", populate_by_name=True)
    name: str = ""
    prefect_version: str = Field(default="", alias="prefect-version")
    build: Literal[None] = None
    push: Literal[None] = None
    pull: list[dict[str, Any]] = Field(description="steps before a run; [] where the code is there already")
    definitions: dict[str, Any] = {}
    deployments: list[DeploymentSpec]


@dataclass
class DeployReport:
    """What a deploy changed."""

    registered: list[str] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)
    removed_schedules: list[str] = field(default_factory=list)

    def lines(self) -> list[str]:
        """For a person."""
        lines = [f"registered {len(self.registered)} deployments: {', '.join(self.registered)}"]
        lines += [f"removed deployment {name}: it is not in the file any more" for name in self.removed]
        return lines + [f"removed schedule {name}: it is not in the file any more" for name in self.removed_schedules]


def read_deploy_file(path: Path, settings: Settings) -> DeployFile:
    """The file with its placeholders filled in. Raises BadSpecError that names every wrong key."""
    os.environ |= {"GLMFLOW_HOME": str(settings.root), "GLMFLOW_THREADS": str(settings.threads)}
    try:
        content = apply_values(yaml.safe_load(path.read_text()), {})
        return DeployFile.model_validate(content)
    except OSError as error:
        raise BadSpecError(f"deploy file {path}: want a readable YAML file, got {error.strerror}") from error
    except yaml.YAMLError as error:
        raise BadSpecError(f"deploy file {path}: want YAML, got {' '.join(str(error).split())[:120]!r}") from error
    except ValidationError as error:
        raise BadSpecError(f"deploy file {path}: {describe(error)}") from error


def form_of(flow: Flow[..., Any]) -> dict[str, Any]:
    """The schema of a flow's parameters. Prefect leaves out what top-level ones mean, and takes unknown ones."""
    schema = parameter_schema(flow.fn).model_dump(exclude_none=True)
    for name, parameter in inspect.signature(flow.fn, eval_str=True).parameters.items():
        notes = [note for note in getattr(parameter.annotation, "__metadata__", ()) if isinstance(note, FieldInfo)]
        text = next((note.description for note in notes if note.description), None)
        if text:
            schema["properties"][name]["description"] = text
    return {**schema, "additionalProperties": False}


async def prepare(settings: Settings) -> DeployReport:
    """What a platform needs on its server before its worker starts."""
    async with get_client() as client:
        await close_dead_runs(client)
        await watch_heartbeats(client)
        return await _deploy(client, read_deploy_file(DEPLOY_FILE, settings))


async def deploy_file(path: Path, settings: Settings) -> DeployReport:
    """Register what the file declares, and remove what left it."""
    content = read_deploy_file(path, settings)
    async with get_client() as client:
        return await _deploy(client, content)


async def _deploy(client: PrefectClient, content: DeployFile) -> DeployReport:
    report, kept = DeployReport(), set()
    for pool in {spec.work_pool.name for spec in content.deployments}:
        await _ensure_pool(client, pool)
    for spec in content.deployments:
        flow: Flow[..., Any] = load_flow_from_entrypoint(spec.entrypoint, use_placeholder_flow=False)
        before = await _schedules(client, f"{flow.name}/{spec.name}")
        kept.add(await _register(client, spec, flow, content.pull))
        report.registered.append(f"{flow.name}/{spec.name}")
        now = {schedule.slug for schedule in spec.schedules}
        report.removed_schedules += [f"{spec.name}/{slug}" for slug in before if slug not in now]
    tagged = DeploymentFilter(tags=DeploymentFilterTags(all_=[TAG]))
    for present in await client.read_deployments(deployment_filter=tagged, limit=PAGE_DEPLOYMENTS):
        if present.id not in kept:
            await client.delete_deployment(present.id)
            report.removed.append(present.name)
    return report


async def _ensure_pool(client: PrefectClient, name: str) -> None:
    """The embedded platform has pools of type `process`; a pool that is there stays as it is."""
    try:
        await client.create_work_pool(WorkPoolCreate(name=name, type="process"))
    except ObjectAlreadyExists:
        return


async def _schedules(client: PrefectClient, full_name: str) -> list[str]:
    """Slugs of the schedules that a deployment has, "" for one without."""
    try:
        present = await client.read_deployment_by_name(full_name)
    except ObjectNotFound:
        return []
    return [schedule.slug or "" for schedule in present.schedules]


async def _register(
    client: PrefectClient, spec: DeploymentSpec, flow: Flow[..., Any], pull: Sequence[Mapping[str, Any]]
) -> Any:
    """Create or replace one deployment; its schedules are replaced by those given here."""
    limit = spec.concurrency_limit
    schedules = [
        DeploymentScheduleCreate(schedule=s.schedule(), active=s.active, parameters=s.parameters, slug=s.slug)
        for s in spec.schedules
    ]
    steps = spec.pull if spec.pull is not None else pull
    return await client.create_deployment(
        flow_id=await client.create_flow_from_name(flow.name),
        name=spec.name,
        description=spec.description or inspect.getdoc(flow.fn),
        entrypoint=spec.entrypoint,
        parameters=spec.parameters,
        tags=sorted({TAG, *spec.tags}),
        work_pool_name=spec.work_pool.name,
        work_queue_name=spec.work_pool.work_queue_name,
        job_variables=spec.work_pool.job_variables,
        schedules=schedules,
        concurrency_limit=limit.limit if limit else None,
        concurrency_options=ConcurrencyOptions(collision_strategy=limit.collision_strategy) if limit else None,
        parameter_openapi_schema=form_of(flow),
        enforce_parameter_schema=True,
        pull_steps=[dict(step) for step in steps],
    )
