"""The platform's decisions, with services that start in no time. (The real ones: tests/e2e/test_platform.py.)"""

import os
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import SecretStr

from flows import platform
from flows.platform import METRICS, PLATFORM_SERVER, TRACKER, WORKER, Platform, listen
from flows.prefect_api import platform_api_url
from infra.errors import BadSpecError, RetryableError
from infra.settings import Settings
from tests.support.postgres_server import PostgresServer

SLEEP = (sys.executable, "-c", "import time; time.sleep(60)")
FAILING = (sys.executable, "-c", "print('no such database'); raise SystemExit(1)")


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    monkeypatch.setattr(platform, "server_command", lambda *_: [*SLEEP])
    monkeypatch.setattr(platform, "_MLFLOW_COMMAND", SLEEP)
    monkeypatch.setattr(platform, "_WORKER_COMMAND", SLEEP)
    monkeypatch.setattr(platform, "_METRICS_COMMAND", SLEEP)
    monkeypatch.setattr(platform, "POLL_S", 0.01)
    return Settings(home=tmp_path, prefect_port=free_port(), mlflow_port=free_port(), metrics_port=free_port())


@pytest.fixture
def ready(settings: Settings, monkeypatch: pytest.MonkeyPatch) -> Iterator[Platform]:
    monkeypatch.setattr(Platform, "_is_ready", lambda _self, _name: True)
    monkeypatch.setattr(platform, "check_password", lambda _url, _settings: None)
    found = Platform(settings)
    yield found
    found.down()


def test_up_starts_everything_once_and_down_ends_it_once(ready: Platform):
    prepared: list[str] = []
    assert ready.up(lambda: prepared.append(ready.api_url)) == [PLATFORM_SERVER, METRICS, TRACKER, WORKER]
    pids = [service.pid for service in ready.status()]
    assert ready.up(lambda: None) == [] and [service.pid for service in ready.status()] == pids
    assert prepared == [f"http://127.0.0.1:{ready.settings.prefect_port}/api"]
    assert ready.down() == [WORKER, METRICS, TRACKER, PLATFORM_SERVER] and ready.down() == []
    assert {service.state for service in ready.status()} == {"down"}


def test_up_starts_only_what_is_missing(ready: Platform):
    ready.up(lambda: None)
    ready._daemons[WORKER].stop(1.0)
    assert [service.state for service in ready.status()] == ["running"] * 3 + ["down"]
    assert ready.up(lambda: None) == [WORKER]


def test_runs_of_this_home_find_the_platform(ready: Platform, tmp_path: Path):
    assert platform_api_url(ready.settings) == ""
    ready.up(lambda: None)
    assert platform_api_url(ready.settings) == ready.api_url
    assert platform_api_url(Settings(home=tmp_path / "other")) == ""


@pytest.mark.parametrize(
    ("variable", "field"),
    [
        ("GLMFLOW_PREFECT_PORT", "prefect_port"),
        ("GLMFLOW_MLFLOW_PORT", "mlflow_port"),
        ("GLMFLOW_METRICS_PORT", "metrics_port"),
    ],
)
def test_a_port_that_is_taken_names_its_setting_and_nothing_is_started(ready: Platform, variable: str, field: str):
    port = getattr(ready.settings, field)
    with (
        socket.create_server(("127.0.0.1", port)),
        pytest.raises(
            BadSpecError, match=rf"{variable}: want a free port of 127.0.0.1, got {port} \(.*\); set another"
        ),
    ):
        ready.up(lambda: None)
    assert {service.state for service in ready.status()} == {"down"}


@pytest.mark.parametrize("field", ["tracking_uri", "lineage_url"])
def test_a_database_that_each_service_would_look_for_elsewhere_is_refused(settings: Settings, field: str):
    relative = settings.model_copy(update={field: "sqlite:///var/x.db"})
    with pytest.raises(BadSpecError, match=rf"GLMFLOW_{field.upper()}: want an absolute path \(sqlite:////...\), got"):
        Platform(relative).up(lambda: None)


@pytest.mark.slow
def test_a_database_that_is_not_there_is_said_before_anything_is_started(
    settings: Settings, postgres_server: PostgresServer
):
    absent = settings.model_copy(update={"database_url": postgres_server.url("absent")})
    with pytest.raises(
        BadSpecError, match=r'database .*:\*\*\*@.*"absent_lineage" does not exist; set GLMFLOW_DATABASE'
    ):
        Platform(absent).up(lambda: None)
    assert {service.state for service in Platform(absent).status()} == {"down"}


def test_a_port_that_was_listened_on_is_free_again():
    port = free_port()
    for _ in range(2):
        with listen("X", port) as listener:
            assert listener.getsockname() == ("127.0.0.1", port)


def test_a_service_that_ends_is_said_with_its_last_words(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "server_command", lambda *_: [*FAILING])
    monkeypatch.setattr(platform, "answers", lambda _url: False)
    found = Platform(settings)
    with pytest.raises(
        RetryableError, match=r"prefect: want it to start, but it ended \(its log .*: no such database\)"
    ):
        found.up(lambda: None)
    found.down()


def test_a_service_that_never_answers_is_said(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(platform, "READY_TIMEOUT_S", 0.0)
    monkeypatch.setattr(platform, "answers", lambda _url: False)
    found = Platform(settings)
    with pytest.raises(RetryableError, match="prefect: want it to start, but it answered nothing for 0 s"):
        found.up(lambda: None)
    assert found.status()[0].state == "starting"
    found.down()


def test_a_tracker_that_is_a_server_somewhere_is_used_and_not_started(ready: Platform, monkeypatch: pytest.MonkeyPatch):
    settings = ready.settings.model_copy(update={"tracking_uri": "http://127.0.0.1:9"})
    monkeypatch.setattr(platform, "answers", lambda url: url != "http://127.0.0.1:9/health")
    found = Platform(settings)
    assert found.up(lambda: None) == [PLATFORM_SERVER, METRICS, WORKER] and found.mlflow_url == "http://127.0.0.1:9"
    assert [service.state for service in found.status()] == ["running", "down", "running", "running"]


def test_every_service_finds_this_home_and_no_address_is_on_a_command_line(ready: Platform):
    ready.up(lambda: None)
    for service in ready.status():
        process = Path("/proc") / str(service.pid)
        until = time.monotonic() + 5
        while not (environment := (process / "environ").read_bytes()):
            assert time.monotonic() < until
        assert f"GLMFLOW_HOME={ready.settings.root}\0".encode() in environment
        assert b"sqlite" not in (process / "cmdline").read_bytes()


def test_with_a_password_servers_ask_for_it_clients_have_it_and_no_command_line_shows_it(
    settings: Settings, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(Platform, "_is_ready", lambda _self, _name: True)
    monkeypatch.setattr(platform, "check_password", lambda _url, _settings: None)
    found = Platform(settings.model_copy(update={"auth": SecretStr("ada:pass:word")}))
    found.up(lambda: None)
    for service in found.status():
        process = Path("/proc") / str(service.pid)
        environment = (process / "environ").read_bytes().split(b"\0")
        assert b"PREFECT_API_AUTH_STRING=ada:pass:word" in environment
        assert (b"PREFECT_SERVER_API_AUTH_STRING=ada:pass:word" in environment) is (service.name == PLATFORM_SERVER)
        words = (process / "cmdline").read_bytes()
        assert b"pass:word" not in words and (b"--app-name\0glmflow" in words) is (service.name == TRACKER)
    found.down()
