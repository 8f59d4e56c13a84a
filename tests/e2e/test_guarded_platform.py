"""The platform with a password: who has it works as ever, who has not learns nothing, and it is written down nowhere.

Real servers and a real worker on ports of their own, with the network guard on. Not covered: other machines.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.platform_client import PlatformClient
from tests.support.topics import write_topics

pytestmark = pytest.mark.slow
PASSWORD = "open-sesame-of-this-test"
CREDENTIALS = ("ada", PASSWORD)


@pytest.fixture(scope="module")
def platform(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PlatformClient]:
    home = tmp_path_factory.mktemp("guarded") / "home"
    home.mkdir()
    write_topics(home / "documents")
    client = PlatformClient(home, CREDENTIALS)
    try:
        code, out, err = client.command("up")
        assert code == 0 and PASSWORD not in out + err, err
        yield client
    finally:
        client.command("down")
        client.kill(*client.processes())


@pytest.fixture(scope="module")
def run(platform: PlatformClient) -> dict[str, Any]:
    """A run of the worker that made artifacts and told MLflow about them."""
    documents = {"source_folder": str(platform.home / "documents")}
    found = platform.run("lifecycle", recipe="tiny", until="ingest", documents=documents)
    assert found["state_type"] == "COMPLETED", platform.log_of(found["id"])
    return found


def test_who_has_the_password_works_as_ever(platform: PlatformClient, run: dict[str, Any]):
    assert "MLflow](http://" in platform.page_of(run["id"])
    words = ["--input", str(platform.home / "documents"), "--until", "ingest", "--json"]
    code, out, err = platform.command("run", "tiny", *words)
    assert code == 0 and '"cached": true' in out, err
    assert platform.command("deploy")[0] == platform.command("status")[0] == 0
    code, out, _ = platform.command("runs")
    first, second = [line.split("\u2502")[1].strip() for line in out.splitlines() if "tiny" in line]
    code, out, err = platform.command("compare", first, second)
    assert code == 0 and f"in MLflow: http://127.0.0.1:{platform.mlflow_port}/#/compare-runs?runs=" in out, err


@pytest.mark.parametrize("credentials", [None, ("ada", "wrong"), ("", PASSWORD)])
def test_who_has_not_reads_neither_api_nor_artifacts(
    platform: PlatformClient, run: dict[str, Any], credentials: tuple[str, str] | None
):
    found = platform.mlflow("/runs/search", {"experiment_ids": ["1"]})["runs"]
    mlflow_id = found[0]["info"]["run_id"]
    prefect, mlflow, metrics = (
        f"http://127.0.0.1:{port}" for port in (platform.prefect_port, platform.mlflow_port, platform.metrics_port)
    )
    artifact = f"{mlflow}/get-artifact?run_id={mlflow_id}&path=config.json"
    reads = [
        f"{prefect}/api/flow_runs/{run['id']}", f"{prefect}/api/admin/settings", f"{prefect}/api/admin/version",
        f"{prefect}/api//flow_runs/{run['id']}",
        f"{mlflow}/", f"{mlflow}/api/2.0/mlflow/runs/get?run_id={mlflow_id}", artifact,
        f"{mlflow}/ajax-api/2.0/mlflow/artifacts/list?run_id={mlflow_id}",
        f"{mlflow}/api/2.0/mlflow-artifacts/artifacts/../../../../etc/passwd", f"{mlflow}/health/../version",
        f"{metrics}/metrics",
    ]  # fmt: skip
    for url in reads:
        reply = httpx.get(url, auth=credentials, timeout=60, trust_env=False)
        assert reply.status_code in (401, 404) and run["id"] not in reply.text and mlflow_id not in reply.text, url
    searches = (f"{prefect}/api/flow_runs/filter", f"{prefect}/api/artifacts/filter",
                f"{mlflow}/api/2.0/mlflow/runs/search", f"{mlflow}/graphql")  # fmt: skip
    for url in searches:
        assert httpx.post(url, json={}, auth=credentials, timeout=60, trust_env=False).status_code == 401, url
    assert httpx.get(artifact, auth=CREDENTIALS, timeout=60, trust_env=False).is_success


def test_a_command_without_the_password_is_told_so(platform: PlatformClient):
    code, _, err = platform.command("deploy", GLMFLOW_AUTH="")
    assert (code, err.count("\n")) == (2, 1) and "GLMFLOW_AUTH: want the user:password that the platform at" in err, err


def test_prometheus_reads_what_the_platform_did(platform: PlatformClient, run: dict[str, Any]):
    url = f"http://127.0.0.1:{platform.metrics_port}/metrics"
    text = httpx.get(url, auth=CREDENTIALS, timeout=60, trust_env=False).raise_for_status().text
    families = text_string_to_metric_families(text)
    found = {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}
    assert found["glmflow_stage_runs_total", "ingest"] == 1 and found["glmflow_stage_seconds_total", "ingest"] > 0
    assert found["glmflow_lifecycles", "finished"] >= 1 and found["glmflow_lifecycles", "lost"] == 0
    size = sum(path.stat().st_size for path in (platform.home / "store/raw_corpus").glob("*/*/*"))
    assert found["glmflow_artifact_bytes", "raw_corpus"] == size
    assert 0 <= found["glmflow_last_success_age_seconds",] < 600 and found["glmflow_disk_free_bytes",] > 0


def test_the_password_is_in_no_file_no_database_and_no_command_line(platform: PlatformClient, run: dict[str, Any]):
    for database in platform.home.rglob("*.db"):
        with sqlite3.connect(database) as connection:  # what waits in a write-ahead log, too
            assert PASSWORD not in "\n".join(connection.iterdump()), database
    for path in platform.home.rglob("*"):
        assert not path.is_file() or PASSWORD.encode() not in path.read_bytes(), path
    assert not [p for p in platform.processes() if any(PASSWORD in word for word in p.cmdline())]


def test_nothing_reached_outside(platform: PlatformClient):
    log: Path = platform.home / "network.log"
    assert not log.exists(), log.read_text()
