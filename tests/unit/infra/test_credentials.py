"""Nothing passes a guard without credentials, and secrets go where clients look for them, and nowhere else."""

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest

from infra.credentials import (
    BearerKey,
    Guard,
    UserPassword,
    api_key,
    client_environment,
    is_loopback,
    platform_guard,
    server_environment,
)
from infra.errors import BadSpecError
from infra.settings import Settings

KEY = BearerKey("correct horse")
PASSWORD = UserPassword("ada", "pass:word")


def basic(text: str) -> str:
    return "Basic " + base64.b64encode(text.encode()).decode()


def ask(guard: Any, path: str = "/api", *headers: str, kind: str = "http") -> list[Any]:
    """What the guard sends, or ["passed"]."""
    sent: list[Any] = []

    async def send(message: Any) -> None:
        sent.append(message["status"] if message["type"] == "http.response.start" else message["type"])

    scope = {"type": kind, "path": path, "headers": [(b"authorization", header.encode()) for header in headers]}
    asyncio.run(guard(scope, None, send))
    return sent


async def application(_scope: Any, _receive: Any, send: Any) -> None:
    await send({"type": "passed"})


@pytest.mark.parametrize(
    ("credentials", "header"),
    [(KEY, "Bearer correct horse"), (KEY, "bearer correct horse"), (PASSWORD, basic("ada:pass:word"))],
)
def test_the_right_credentials_pass(credentials: Any, header: str):
    assert ask(Guard(application, credentials), "/api", header) == ["passed"]
    assert ask(Guard(application, credentials), "/api", header, kind="websocket") == ["passed"]


@pytest.mark.parametrize(
    "header",
    ["", "Bearer", "Bearer ", "Bearer correct hors", "Bearer correct horse2", "Basic correct horse", "correct horse",
     basic("ada:pass"), basic("ada:pass:word2"), basic("pass:word"), "Basic ???", "Basic /w==", "Bearer \u00fc"],
)  # fmt: skip
@pytest.mark.parametrize("credentials", [KEY, PASSWORD])
def test_nothing_else_does(credentials: Any, header: str):
    guard = Guard(application, credentials, open_paths=["/health"])
    assert ask(guard, "/api", header)[0] == 401
    assert ask(guard, "/api", header, kind="websocket") == ["websocket.close"]
    assert ask(guard, "/health", header) == ["passed"]
    for path in ("/health/", "//health", "/api/health", "/health/../api", "/HEALTH", ""):
        assert ask(guard, path, header)[0] == 401, path


def test_two_headers_are_none():
    assert ask(Guard(application, KEY), "/api", "Bearer correct horse", "Bearer x")[0] == 401


def test_without_a_password_there_is_no_guard():
    assert platform_guard(application, Settings(), []) is application
    assert ask(platform_guard(application, Settings(auth="a:b"), []), "/")[0] == 401


def test_clients_find_the_password_where_they_look_and_nothing_when_there_is_none():
    settings = Settings(auth="ada:pass:word")
    assert client_environment(settings) == {
        "PREFECT_API_AUTH_STRING": "ada:pass:word",
        "MLFLOW_TRACKING_USERNAME": "ada",
        "MLFLOW_TRACKING_PASSWORD": "pass:word",
    }
    assert server_environment(settings) == {"PREFECT_SERVER_API_AUTH_STRING": "ada:pass:word"}
    assert client_environment(Settings()) == server_environment(Settings()) == {}


def test_a_key_comes_from_the_environment_or_from_a_file_and_never_from_both(tmp_path: Path):
    path = tmp_path / "key"
    assert api_key(Settings()) == "" and api_key(Settings(api_key="k")) == "k"
    path.write_text("from a file\n")
    assert api_key(Settings(api_key_file=str(path))) == "from a file"
    with pytest.raises(BadSpecError, match="GLMFLOW_API_KEY_FILE: want one key, got GLMFLOW_API_KEY as well"):
        api_key(Settings(api_key="k", api_key_file=str(path)))
    path.write_text(" \n")
    for given in (path, tmp_path, tmp_path / "none"):
        with pytest.raises(BadSpecError, match="GLMFLOW_API_KEY_FILE: want a file with a key, got"):
            api_key(Settings(api_key_file=str(given)))


@pytest.mark.parametrize(
    ("host", "is_local"),
    [("127.0.0.1", True), ("127.9.9.9", True), ("::1", True), ("localhost", True), ("0.0.0.0", False), ("::", False),
     ("10.0.0.1", False), ("localhost.example", False), ("", False), ("2130706433", False)],
)  # fmt: skip
def test_an_address_that_others_may_reach_is_told_from_one_of_this_machine(host: str, is_local: bool):
    assert is_loopback(host) is is_local
