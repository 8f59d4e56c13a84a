"""Databases for one test: an empty one of each engine, and a copy of an MLflow database (making one takes seconds)."""

import shutil
import uuid
from pathlib import Path

import pytest

from infra.registry import connect
from infra.settings import go_offline
from tests.support.postgres_server import PostgresServer


@pytest.fixture(scope="session")
def empty_tracking_db(tmp_path_factory: pytest.TempPathFactory) -> Path:
    go_offline()
    path = tmp_path_factory.mktemp("mlflow") / "empty.db"
    connect(f"sqlite:///{path}").search_experiments()
    return path


@pytest.fixture
def tracking_uri(empty_tracking_db: Path, tmp_path: Path) -> str:
    path = tmp_path / "mlflow.db"
    shutil.copy(empty_tracking_db, path)
    return f"sqlite:///{path}"


@pytest.fixture
def postgres_database(postgres_server: PostgresServer) -> str:
    name = f"unit_{uuid.uuid4().hex[:8]}"
    with postgres_server.connected() as connection:
        connection.execute(f'CREATE DATABASE "{name}"')
    return postgres_server.url(name).replace("://", "+psycopg://")


@pytest.fixture(params=["sqlite", pytest.param("postgresql", marks=pytest.mark.slow)])
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A database that nobody has opened yet, of each engine."""
    is_file = request.param == "sqlite"
    return f"sqlite:///{tmp_path}/deep/lineage.db" if is_file else request.getfixturevalue("postgres_database")
