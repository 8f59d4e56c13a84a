"""MLflow behind the platform's password. (The real server: tests/integration/test_guarded_platform.py.)"""

from importlib.metadata import entry_points

import pytest
from fastapi.testclient import TestClient

from infra import tracker_app


def test_mlflow_finds_the_application_by_its_name():
    (point,) = entry_points(group="mlflow.app", name=tracker_app.APP_NAME)
    assert point.load() is tracker_app.create_app


@pytest.mark.parametrize("path", ["/", "/version", "/api/2.0/mlflow/experiments/search", "/graphql", "/get-artifact"])
def test_every_path_but_health_wants_the_password(monkeypatch: pytest.MonkeyPatch, path: str):
    monkeypatch.setenv("GLMFLOW_AUTH", "ada:password")
    client = TestClient(tracker_app.create_app(), base_url="http://localhost")
    assert client.get(path).status_code == 401 and client.get(path, auth=("ada", "other")).status_code == 401
    assert client.get("/health").status_code == 200
    assert client.get("/version", auth=("ada", "password")).status_code == 200
