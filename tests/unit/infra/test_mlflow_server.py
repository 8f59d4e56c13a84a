"""The server's own start. (The real server: tests/e2e/test_platform.py, tests/e2e/test_postgres_platform.py.)"""

from pathlib import Path

import mlflow.cli
import pytest
from sqlalchemy import inspect

from infra import mlflow_server
from infra.database import open_engine


@pytest.mark.slow
def test_the_tables_are_there_before_the_server_starts_and_the_options_are_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    url, given = f"sqlite:///{tmp_path}/new/mlflow.db", []

    def start(words: list[str], prog_name: str) -> None:
        assert inspect(open_engine(url)).has_table("experiments")
        given.append((prog_name, words))

    monkeypatch.setattr(mlflow.cli, "cli", start)
    monkeypatch.setenv(mlflow_server.ADDRESS_VARIABLE, url)
    mlflow_server.main(["--port", "1"])
    assert given == [("mlflow", ["server", "--port", "1"])]
