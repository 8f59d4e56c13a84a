"""What prefect.yaml may say, and that it says what there is. (Registering it: tests/e2e/test_platform.py.)"""

import os
from pathlib import Path
from typing import Any

import jsonschema
import pytest
import yaml
from prefect.cli.deploy._models import PrefectYamlModel
from prefect.flows import load_flow_from_entrypoint

from flows.deploy import DEPLOY_FILE, DeployReport, form_of, read_deploy_file
from infra.errors import BadSpecError
from infra.settings import Settings
from stages import STAGE_NAMES

SCHEDULE = {"slug": "nightly", "cron": "0 3 * * *", "timezone": "Europe/Berlin"}
POOL = {"name": "process"}


@pytest.fixture(autouse=True)
def own_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "environ", dict(os.environ))


def written(tmp_path: Path, **deployment: Any) -> Path:
    path = tmp_path / "prefect.yaml"
    spec = {"name": "clean", "entrypoint": "flows.deployed.clean", "work_pool": POOL, **deployment}
    path.write_text(yaml.safe_dump({"pull": [], "deployments": [spec]}))
    return path


def test_the_file_declares_both_chains_and_every_stage_and_nothing_starts_by_itself(tmp_path: Path):
    settings = Settings(home=tmp_path)
    content = read_deploy_file(DEPLOY_FILE, settings)
    assert [spec.name for spec in content.deployments] == ["lifecycle", "retrain", *STAGE_NAMES]
    assert not any(schedule.active for spec in content.deployments for schedule in spec.schedules)
    assert content.pull == []
    for spec in content.deployments:
        assert spec.entrypoint == f"flows.deployed.{spec.name}"
        assert spec.work_pool.job_variables["env"]["GLMFLOW_HOME"] == str(tmp_path)
        assert "URL" not in str(spec.work_pool.job_variables), "an address may hold a password"


def test_prefect_itself_reads_the_file():
    content = PrefectYamlModel.model_validate(yaml.safe_load(DEPLOY_FILE.read_text()))
    assert len(content.deployments) == 2 + len(STAGE_NAMES)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"entry_point": "x"}, "deployments.0.entry_point: Extra inputs are not permitted"),
        ({"schedules": [{**SCHEDULE, "slug": ""}]}, "deployments.0.schedules.0.slug"),
        ({"schedules": [{"slug": "x", "cron": "0 3 * * *"}]}, "deployments.0.schedules.0.timezone: Field required"),
        ({"schedules": [{**SCHEDULE, "interval": 60}]}, "schedule nightly: want one of cron, interval, rrule, got"),
        ({"schedules": [SCHEDULE, SCHEDULE]}, "deployment clean: want schedules with different slugs"),
    ],
)
def test_what_the_file_must_not_say_is_named(tmp_path: Path, change: dict[str, Any], message: str):
    with pytest.raises(BadSpecError, match=message):
        read_deploy_file(written(tmp_path, **change), Settings(home=tmp_path))


def test_a_file_that_cannot_be_read_is_said(tmp_path: Path):
    with pytest.raises(BadSpecError, match="want a readable YAML file, got No such file"):
        read_deploy_file(tmp_path / "none.yaml", Settings(home=tmp_path))
    (tmp_path / "bad.yaml").write_text("a: [")
    with pytest.raises(BadSpecError, match="want YAML, got"):
        read_deploy_file(tmp_path / "bad.yaml", Settings(home=tmp_path))


@pytest.mark.parametrize("when", [{"cron": "0 3 * * *"}, {"interval": 3600}, {"rrule": "FREQ=DAILY"}])
def test_every_kind_of_schedule_has_the_time_zone_that_was_given(tmp_path: Path, when: dict[str, Any]):
    spec = {"slug": "s", "timezone": "Europe/Berlin", **when}
    (deployment,) = read_deploy_file(written(tmp_path, schedules=[spec]), Settings(home=tmp_path)).deployments
    assert deployment.schedules[0].schedule().timezone == "Europe/Berlin"


@pytest.mark.parametrize("name", ["lifecycle", "retrain", *STAGE_NAMES])
def test_every_form_takes_its_own_defaults_and_refuses_an_unknown_field(name: str):
    schema = form_of(load_flow_from_entrypoint(f"flows.deployed.{name}", use_placeholder_flow=False))
    defaults = {k: v["default"] for k, v in schema["properties"].items() if "default" in v}
    checker = jsonschema.Draft202012Validator({**schema, "required": []})
    checker.validate(defaults)
    assert list(checker.iter_errors({**defaults, "stepz": 1}))
    assert schema["properties"]["seed"]["description"] and list(checker.iter_errors({"seed": -1}))


def test_the_report_says_what_was_removed():
    lines = DeployReport(["clean/clean"], ["old"], ["clean/nightly"]).lines()
    assert lines[0] == "registered 1 deployments: clean/clean"
    assert "removed deployment old" in lines[1] and "removed schedule clean/nightly" in lines[2]
