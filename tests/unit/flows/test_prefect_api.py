"""A server that is given is used and left alone; one that does not come up is a sentence. (Ours: tests/integration.)"""

import os
import signal
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest
from pydantic import SecretStr

from flows import prefect_api
from flows.prefect_api import PrefectApi
from flows.stop import StopSwitch
from infra.errors import BadSpecError, RetryableError, StopRequestedError
from infra.settings import Settings


class Health(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200 if self.path == "/api/health" else 404)
        self.end_headers()

    def log_message(self, *_args: object) -> None:
        return


class Locked(Health):
    def do_GET(self) -> None:
        is_open = self.path == "/api/health" or self.headers["Authorization"] == "Basic YWRhOnBhc3N3b3Jk"
        self.send_response(200 if is_open else 401)
        self.end_headers()


@pytest.fixture
def settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Settings:
    monkeypatch.setattr(os, "environ", dict(os.environ))
    return Settings(home=tmp_path)


def test_a_given_server_is_used_and_stays(settings: Settings):
    with HTTPServer(("127.0.0.1", 0), Health) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{server.server_port}/api"
        api = PrefectApi(settings)
        api.wait_ready(StopSwitch(), timeout_s=10)
        api.close()
        api.wait_ready(StopSwitch(), timeout_s=10)
        server.shutdown()
    assert not api.log_path.exists()


@pytest.mark.parametrize(("auth", "got"), [("", "none"), ("ada:wrong", "another")])
def test_a_server_that_wants_another_password_is_said_by_the_setting(settings: Settings, auth: str, got: str):
    with HTTPServer(("127.0.0.1", 0), Locked) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        os.environ["PREFECT_API_URL"] = f"http://127.0.0.1:{server.server_port}/api"
        wrong, right = (settings.model_copy(update={"auth": SecretStr(a)}) for a in (auth, "ada:password"))
        PrefectApi(right).wait_ready(StopSwitch(), timeout_s=10)
        with pytest.raises(BadSpecError, match=rf"GLMFLOW_AUTH: want the user:password .*, got {got}; set it"):
            PrefectApi(wrong).wait_ready(StopSwitch(), timeout_s=10)
        server.shutdown()


def test_a_given_server_that_does_not_answer_is_said(settings: Settings):
    os.environ["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    with pytest.raises(
        RetryableError, match=r"at http://127.0.0.1:9/api did not answer for 0 s; check PREFECT_API_URL"
    ):
        PrefectApi(settings).wait_ready(StopSwitch(), timeout_s=0)


def test_a_stop_while_waiting_is_obeyed(settings: Settings):
    os.environ["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    stop = StopSwitch()
    stop.request(signal.SIGTERM)
    with pytest.raises(StopRequestedError):
        PrefectApi(settings).wait_ready(stop)


def test_our_server_that_dies_is_said_with_its_log(settings: Settings, monkeypatch: pytest.MonkeyPatch):
    os.environ.pop("PREFECT_API_URL", None)
    monkeypatch.setattr(prefect_api, "_COMMAND", ("false",))
    monkeypatch.setattr(prefect_api, "REQUEST_TIMEOUT_S", 0.2)
    api = PrefectApi(settings)
    with pytest.raises(RetryableError, match=r"did not start; its log is .*server\.log"):
        api.wait_ready(StopSwitch())
    api.close()


def test_nothing_of_prefect_leaves_this_home_or_this_machine(settings: Settings):
    environment = prefect_api.prefect_environment(settings)
    assert environment["PREFECT_HOME"] == str(settings.root / "prefect")
    assert environment["PREFECT_SERVER_ANALYTICS_ENABLED"] == "false" and environment["DO_NOT_TRACK"] == "true"
    os.environ["PREFECT_API_URL"] = "http://127.0.0.1:9/api"
    PrefectApi(settings)
    assert "127.0.0.1" in os.environ["NO_PROXY"]
