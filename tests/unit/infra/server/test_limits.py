"""A body that is too large never reaches the application, whether or not it says so."""

import json
from collections.abc import Iterable, Iterator

import pytest
from fastapi import FastAPI, Request
from fastapi.testclient import TestClient

from infra.server.limits import BodyLimit

LIMIT = 100


@pytest.fixture
def seen() -> list[int]:
    return []


@pytest.fixture
def client(seen: list[int]) -> Iterator[TestClient]:
    app = FastAPI()

    @app.post("/")
    async def size(request: Request) -> int:
        seen.append(len(await request.body()))
        return seen[-1]

    with TestClient(BodyLimit(app, LIMIT)) as client:
        yield client


def pieces(*sizes: int) -> Iterable[bytes]:
    yield from (b"x" * size for size in sizes)


@pytest.mark.parametrize("sizes", [(0,), (1,), (LIMIT,), (40, 60)])
def test_what_fits_arrives_whole(client: TestClient, seen: list[int], sizes: tuple[int, ...]):
    assert client.post("/", content=b"x" * sum(sizes)).json() == sum(sizes)
    assert client.post("/", content=pieces(*sizes)).json() == sum(sizes)
    assert seen == [sum(sizes)] * 2


@pytest.mark.parametrize("content", [b"x" * (LIMIT + 1), pieces(LIMIT, 1), pieces(*[30] * 4)])
def test_what_does_not_fit_is_refused_before_the_application(client: TestClient, seen: list[int], content):
    response = client.post("/", content=content)
    assert (response.status_code, response.headers["connection"], seen) == (413, "close", [])
    error = response.json()["error"]
    assert error["code"] == "body_too_large"
    assert error["message"].startswith(f"body: want at most {LIMIT} bytes, got ")


@pytest.mark.parametrize("length", ["-1", "1e3", "many"])
def test_a_length_that_is_none_is_refused(client: TestClient, seen: list[int], length: str):
    response = client.post("/", content=b"x", headers={"content-length": length})
    assert (response.status_code, seen) == (400, [])
    assert json.loads(response.text)["error"]["message"].startswith("content-length: want a number, got")
