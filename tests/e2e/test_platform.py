"""The platform as a team uses it: up, a form filled in, a refusal, a cancel, crashes, a changed prefect.yaml, down.

Real servers and a real worker on ports of their own, with the network guard on. The documents are Python's own help
topics, so nothing has to be fetched. Screenshots are kept in build/screenshots. Not covered: other machines.
"""

import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from flows.deploy import DEPLOY_FILE
from tests.support.platform_client import PlatformClient, words
from tests.support.platform_pages import TIMEOUT_MS, browser_page, choose, field, fill_number, keep, submit
from tests.support.topics import write_topics

pytestmark = pytest.mark.slow
CANCEL_LIMIT_S = 10.0
LONG = {"train_tokens": 500_000}
LINKS = ("metrics of every stage", "stages side by side")
FIRST_CHECKPOINT = "work/pretrain/*/checkpoint/step-*"


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformClient]:
    home = tmp_path_factory.mktemp("platform") / "home"
    home.mkdir()
    write_topics(home / "documents")
    client = PlatformClient(home)
    code, out, err = client.command("up")
    try:
        assert code == 0, err
        assert f"http://127.0.0.1:{client.prefect_port}" in out and f"http://127.0.0.1:{client.mlflow_port}" in out
        yield client
    finally:
        client.command("down")
        client.kill(*client.processes())


def form(platform: PlatformClient, until: str, **boxes: Any) -> dict[str, Any]:
    documents = {"source_folder": str(platform.home / "documents")} | boxes.pop("documents", {})
    return {"recipe": "tiny", "until": until, "documents": documents, **boxes}


@pytest.fixture(scope="module")
def packed(platform: PlatformClient) -> dict[str, Any]:
    """A finished run up to `pack`."""
    return platform.run("lifecycle", **form(platform, "pack", seed=3, settings=["pack.max_heldout_bytes=10000"]))


def references(page: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(page.split("```json\n")[1].split("\n```", maxsplit=1)[0])
    return found


def test_up_again_changes_nothing_and_status_says_what_runs(platform: PlatformClient):
    code, before, err = platform.command("status")
    assert code == 0, before + err
    watches = [row["id"] for row in platform.post("/automations/filter", {}).json()]
    assert platform.command("up")[0] == 0
    assert [row["id"] for row in platform.post("/automations/filter", {}).json()] == watches and len(watches) == 1
    code, after, _ = platform.command("status")
    pids = [[line.split("│")[5] for line in text.splitlines() if "│" in line] for text in (before, after)]
    assert code == 0 and pids[0] == pids[1] and all(name in after for name in ("prefect", "mlflow", "worker"))


def test_a_run_started_by_the_form_is_finished_and_seen_in_prefect_and_mlflow(
    platform: PlatformClient, packed: dict[str, Any]
):
    assert packed["state_type"] == "COMPLETED", platform.log_of(packed["id"])
    page = platform.page_of(packed["id"])
    assert set(references(page)) == {"ingest", "clean", "dedup", "tokenizer", "pack"}
    experiment = f"http://127.0.0.1:{platform.mlflow_port}/#/experiments/"
    assert experiment in page
    wanted = {"experiment_ids": ["1"], "filter": f"tags.`prefect.flow_run_id` = '{packed['id']}'"}
    (run,) = platform.mlflow("/runs/search", wanted)["runs"]
    assert run["info"]["status"] == "FINISHED"
    assert {"key": "seed", "value": "3"} in run["data"]["params"]
    children = {"experiment_ids": ["1"], "filter": f"tags.`mlflow.parentRunId` = '{run['info']['run_id']}'"}
    assert len(platform.mlflow("/runs/search", children)["runs"]) == 5
    code, out, _ = platform.command("runs")
    assert code == 0 and "tiny" in out and "finished" in out


def test_a_stage_alone_takes_references_and_finds_what_was_made(platform: PlatformClient, packed: dict[str, Any]):
    made = references(platform.page_of(packed["id"]))
    alone = platform.run("clean", inputs={"corpus": made["ingest"]["corpus"]}, seed=3)
    assert alone["state_type"] == "COMPLETED", platform.log_of(alone["id"])
    assert references(platform.page_of(alone["id"]))["clean"] == made["clean"]
    nowhere = {"kind": "raw_corpus", "digest": "a" * 64, "num_bytes": 1}
    refused = platform.run("clean", inputs={"corpus": nowhere})
    assert refused["state_type"] == "FAILED"
    assert "artifact raw_corpus:aaaaaaaaaaaa is not complete in the store" in refused["state"]["message"]


@pytest.mark.parametrize(
    ("name", "parameters", "message"),
    [
        ("lifecycle", {"pretraining": {"train_tokens": 0}}, "train_tokens"),
        ("lifecycle", {"recipe": "huge"}, "recipe"),
        ("lifecycle", {"pretraining": {"train_tokenz": 5}}, "train_tokenz"),
        ("lifecycle", {"recepi": "tiny"}, "recepi"),
        ("clean", {"inputs": {"corpus": {"kind": "tokens", "digest": "a" * 64, "num_bytes": 1}}}, "raw_corpus"),
    ],
)
def test_the_form_refuses_a_bad_value_by_its_name(
    platform: PlatformClient, name: str, parameters: dict[str, Any], message: str
):
    reply = platform.submit(name, **parameters)
    assert reply.status_code == 409 and message in reply.text, reply.text


def test_what_the_form_cannot_see_fails_in_the_preflight_before_any_stage(platform: PlatformClient):
    run = platform.run("lifecycle", **form(platform, "pretrain", settings=["pretrain.rows_per_step=7"]))
    assert run["state_type"] == "FAILED"
    message = "pretrain: rows_per_micro_batch: want a divisor of rows_per_step (7), got 8; change one"
    assert message in run["state"]["message"]
    assert not list(platform.home.glob("work/pretrain/*"))


def test_a_cancel_ends_every_process_and_killed_ones_are_crashed_and_the_next_run_goes_on(
    platform: PlatformClient, packed: dict[str, Any]
):
    asked = form(platform, "pretrain", seed=3, pretraining=LONG, settings=["pack.max_heldout_bytes=10000"])
    first = platform.start("lifecycle", **asked)
    platform.wait_for_file(FIRST_CHECKPOINT, first)
    cancelled_at = time.monotonic()
    platform.cancel(first)
    while platform.stage_processes() or platform.engines():
        assert time.monotonic() < cancelled_at + 60
        time.sleep(0.05)
    took_s = time.monotonic() - cancelled_at
    assert platform.wait_for_end(first)["state_type"] == "CANCELLED"
    assert took_s < CANCEL_LIMIT_S
    (checkpoint,) = platform.home.glob("work/pretrain/*/checkpoint")

    second = platform.start("lifecycle", **asked)
    saved = set(checkpoint.iterdir())
    while set(checkpoint.iterdir()) <= saved:
        assert platform.flow_run(second)["state_type"] != "FAILED", platform.log_of(second)
        time.sleep(0.1)
    platform.kill(*platform.engines())
    assert platform.wait_for_end(second, 60)["state_type"] == "CRASHED"

    third = platform.wait_for_end(platform.start("lifecycle", **asked))
    assert third["state_type"] == "COMPLETED"
    log = next(platform.home.glob("work/pretrain/*/stage.log")).read_text()
    assert log.count("step 1/") == 1, "it started afresh"


@pytest.mark.nightly  # waits for three heartbeats
def test_a_run_whose_worker_and_engine_were_killed_ends_as_crashed(platform: PlatformClient, packed: dict[str, Any]):
    asked = form(platform, "pretrain", seed=4, pretraining=LONG)
    run_id = platform.start("lifecycle", **asked)
    platform.wait_for_file("work/pretrain/*/checkpoint", run_id)
    workers = [p for p in platform.processes() if "worker" in words(p)]
    platform.kill(*workers, *platform.engines())
    code, out, _ = platform.command("status")
    assert code == 1 and "down" in out
    assert platform.wait_for_end(run_id, 180)["state_type"] == "CRASHED"
    assert platform.command("up")[0] == 0 and platform.command("status")[0] == 0


def test_a_person_fills_in_the_form_is_refused_a_bad_value_and_follows_the_run_to_mlflow(platform: PlatformClient):
    deployment_id, prefect = platform.deployment("lifecycle")["id"], f"http://127.0.0.1:{platform.prefect_port}"
    with browser_page() as page:
        page.goto(f"{prefect}/deployments/deployment/{deployment_id}/run")
        choose(page, "recipe", "tiny")
        choose(page, "until", "dedup")
        field(page, "Source Folder").locator("textarea").fill(str(platform.home / "documents"))
        fill_number(page, "Train Tokens", "-5")
        submit(page)
        refusal = "field 'pretraining.train_tokens'. Failure reason: -5 is less than or equal to the minimum of 0"
        page.get_by_text(refusal).first.wait_for()
        page.wait_for_timeout(1_000)  # it slides in
        keep(page, "1-refused")
        fill_number(page, "Train Tokens", "5000")
        submit(page)
        page.wait_for_url("**/deployments/deployment/**tab=Runs")
        wanted = {"flow_runs": {"deployment_id": {"any_": [deployment_id]}}, "sort": "EXPECTED_START_TIME_DESC"}
        run = platform.post("/flow_runs/filter", wanted).json()[0]
        assert run["parameters"]["pretraining"]["train_tokens"] == 5000 and run["parameters"]["until"] == "dedup"
        page.goto(f"{prefect}/runs/flow-run/{run['id']}")
        page.get_by_text("Completed", exact=True).first.wait_for(timeout=4 * TIMEOUT_MS)
        keep(page, "2-completed")
        page.get_by_text("Artifacts", exact=True).first.click()
        page.locator("a[href*='artifacts/artifact']").first.click()
        links = [page.get_by_role("link", name=f"{what} in MLflow") for what in LINKS]
        links[-1].wait_for()
        keep(page, "3-page-of-the-run")
        runs, comparison = (link.get_attribute("href") for link in links)
        page.goto(runs)
        page.get_by_text("4 matching runs").wait_for()
        keep(page, "4-mlflow")
        page.goto(comparison)
        page.get_by_text("Comparing 3 Runs").first.wait_for()
        page.get_by_text("clean/docs_kept").first.scroll_into_view_if_needed()
        keep(page, "5-stages-compared")


def test_what_leaves_the_file_leaves_the_server(platform: PlatformClient, tmp_path: Path):
    content, path = yaml.safe_load(DEPLOY_FILE.read_text()), tmp_path / "prefect.yaml"
    extra = {**content["deployments"][0], "name": "nightly"}
    when = {"cron": "0 3 * * *", "timezone": "Europe/Berlin"}
    extra["schedules"] = [{**when, "slug": "nightly"}, {**when, "slug": "also"}]

    def deploy(*added: dict[str, Any]) -> str:
        path.write_text(yaml.safe_dump({**content, "deployments": [*content["deployments"], *added]}))
        code, out, err = platform.command("deploy", "--file", str(path))
        assert code == 0, err
        return out

    def schedules() -> list[str]:
        return [s["slug"] for s in platform.get("/deployments/name/lifecycle/nightly")["schedules"]]

    deploy(extra)
    assert sorted(schedules()) == ["also", "nightly"]
    assert "removed schedule nightly/also" in deploy({**extra, "schedules": extra["schedules"][:1]})
    assert schedules() == ["nightly"]
    deploy({**extra, "schedules": []})
    assert schedules() == []
    assert "removed deployment nightly" in deploy()
    assert "nightly" not in platform.deployments() and "lifecycle" in platform.deployments()


def test_a_run_from_the_command_line_is_seen_on_the_platform(platform: PlatformClient):
    words = ["--input", str(platform.home / "documents"), "--until", "ingest", "--json", "--seed", "5"]
    code, out, err = platform.command("run", "tiny", *words)
    assert code == 0, err
    name = f"tiny-{json.loads(out)['lifecycle']}"
    (run,) = platform.post("/flow_runs/filter", {"flow_runs": {"name": {"any_": [name]}}}).json()
    assert run["state_type"] == "COMPLETED"


def test_down_leaves_no_process_and_can_be_said_twice(platform: PlatformClient):
    assert platform.command("down")[0] == 0
    assert platform.processes() == []
    code, out, err = platform.command("down")
    assert (code, out) == (0, "nothing was running\n"), err
    assert platform.command("status")[0] == 1
    log = platform.home / "network.log"
    assert not log.exists(), log.read_text()
