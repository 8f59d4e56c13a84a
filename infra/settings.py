"""Where things are and how many threads to use: read from the environment once, at the door."""

import os
from pathlib import Path

from pydantic import Field, ValidationError, field_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from infra.errors import BadSpecError

# Everything the libraries would otherwise send or ask outside; set before they are imported and for every child.
OFFLINE_ENVIRONMENT = {
    "DO_NOT_TRACK": "true",
    "HF_DATASETS_OFFLINE": "1",
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_OFFLINE": "1",
    "MLFLOW_DISABLE_TELEMETRY": "true",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_UI_SHOW_PROMOTIONAL_CONTENT": "false",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_OFFLINE": "1",
    "TRANSFORMERS_VERBOSITY": "error",
}


class Settings(BaseSettings):
    """Settings of one installation, all from `GLMFLOW_*` variables."""

    model_config = SettingsConfigDict(env_prefix="GLMFLOW_", frozen=True, extra="ignore")
    home: Path = Field(default=Path("var"), description="directory of everything glmflow writes")
    threads: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, description="compute threads of a stage")
    lineage_url: str = Field(default="", description="SQLAlchemy URL of the lineage database; default: SQLite in home")
    tracking_uri: str = Field(default="", description="MLflow tracking URI; default: SQLite in home")
    store_url: str = Field(default="", description="s3://bucket/prefix of the store; default: a folder in home")
    s3_endpoint_url: str = Field(default="", description="S3 endpoint, with http:// or https://; default: AWS")
    store_cache_bytes: int = Field(default=50 * 2**30, ge=0, description="limit of the copies of an S3 store, in bytes")
    prefect_port: int = Field(default=4200, ge=1, le=65535, description="port of the platform's Prefect server")
    mlflow_port: int = Field(default=5000, ge=1, le=65535, description="port of the platform's MLflow server")
    worker_limit: int = Field(default=2, ge=1, description="runs that the platform's worker has at a time")

    @field_validator("home")
    @classmethod
    def _is_usable(cls, home: Path) -> Path:
        if any(p.exists() and not p.is_dir() for p in (home, *home.parents)):
            raise ValueError("want a folder, or a path where one can be made")
        return home

    @property
    def root(self) -> Path:
        """`home` as an absolute path."""
        return self.home.absolute()

    @property
    def store_dir(self) -> Path:
        """Artifacts, when they are kept here."""
        return self.root / "store"

    @property
    def store_cache_dir(self) -> Path:
        """Copies of artifacts that are kept on S3."""
        return self.root / "store-cache"

    @property
    def work_dir(self) -> Path:
        """One work directory per stage key."""
        return self.root / "work"

    @property
    def sources_dir(self) -> Path:
        """Downloaded sources of the demonstration corpus."""
        return self.root / "sources"

    @property
    def reports_dir(self) -> Path:
        """One folder per lifecycle run."""
        return self.root / "reports"

    @property
    def platform_dir(self) -> Path:
        """Process records and logs of `glmflow up`."""
        return self.root / "platform"

    def resolved_lineage_url(self) -> str:
        """The lineage database's URL."""
        return self.lineage_url or f"sqlite:///{self.root / 'lineage.db'}"

    def resolved_tracking_uri(self) -> str:
        """MLflow's tracking and registry URI."""
        return self.tracking_uri or f"sqlite:///{self.root / 'mlflow.db'}"


def read_settings() -> Settings:
    """The settings. Raises BadSpecError that names the variable, what was wanted and what was there."""
    try:
        return Settings()
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        variable = f"GLMFLOW_{str(problem['loc'][0]).upper()}"
        raise BadSpecError(f"{variable}: {problem['msg']}, got {str(problem['input'])[:60]!r}; set it anew") from error


def go_offline() -> None:
    """Set OFFLINE_ENVIRONMENT in this process (what is set already stays)."""
    for name, value in OFFLINE_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
