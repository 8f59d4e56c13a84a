"""Servers that several kinds of tests share; each one is started by the first test that asks for it."""

import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.support.postgres_server import PostgresServer
    from tests.support.s3_server import S3Server
    from tests.support.store_places import S3Place


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> "Iterator[S3Server]":
    from tests.support.s3_server import S3Server

    server = S3Server(tmp_path_factory.mktemp("s3") / "server")
    try:
        server.start()
        yield server
    finally:
        server.kill()


@pytest.fixture
def s3_place(s3_server: "S3Server", tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "S3Place":
    """A new place in its bucket, with what boto3 needs to reach it in the environment."""
    from tests.support.s3_server import CREDENTIALS
    from tests.support.store_places import S3Place

    for name, value in CREDENTIALS.items():
        monkeypatch.setenv(name, value)
    return S3Place(s3_server, tmp_path)


@pytest.fixture(scope="session")
def postgres_server() -> "Iterator[PostgresServer]":
    from tests.support.postgres_server import PostgresServer

    server = PostgresServer()
    try:
        server.start()
        yield server
    finally:
        server.close()


@pytest.fixture
def postgres_url(postgres_server: "PostgresServer") -> str:
    """New databases on it, as GLMFLOW_DATABASE_URL names them."""
    return postgres_server.make_databases(f"test_{uuid.uuid4().hex[:8]}")
