"""MLflow's server behind the platform's password: `mlflow server --app-name glmflow` finds it by its entry point.

The whole application stands behind the guard, pages, API and artifacts alike; only `/health` is open. MLflow's own
basic-auth application keeps users in a database of its own; one password for one team needs none.
"""

from infra.credentials import App, platform_guard
from infra.settings import read_settings

APP_NAME = "glmflow"
OPEN_PATHS = ("/health",)


def create_app() -> App:
    """The guarded application, made in each of MLflow's worker processes."""
    from mlflow.server.fastapi_app import app

    return platform_guard(app, read_settings(), OPEN_PATHS)
