"""An MLflow database that was created once and is copied for every test: creating one takes seconds."""

import shutil
from pathlib import Path

import pytest

from infra.registry import connect
from infra.settings import go_offline


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
