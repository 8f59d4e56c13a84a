"""Where things are and how many threads to use: read from the environment once, at the door."""

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from pydantic import Field, SecretStr, ValidationError, field_validator
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

_DATABASE_URL = re.compile(r"postgres(ql)?://([^@/?#\s]+@)?(\[[0-9a-fA-F:]+\]|[^@/?#\s:\[\]]+)(:\d+)?(/[a-z0-9_]*)?")


SECRETS = ("auth", "api_key", "database_url", "lineage_url", "tracking_uri")  # settings that no message repeats


class Settings(BaseSettings):
    """Settings of one installation, all from `GLMFLOW_*` variables."""

    model_config = SettingsConfigDict(env_prefix="GLMFLOW_", frozen=True, extra="ignore", hide_input_in_errors=True)
    home: Path = Field(default=Path("var"), description="directory of everything glmflow writes")
    threads: int = Field(default_factory=lambda: os.cpu_count() or 1, ge=1, description="compute threads of a stage")
    database_url: str = Field(
        default="",
        repr=False,
        description="postgresql://user:password@host:port/NAME, a server with the databases NAME_lineage, NAME_mlflow "
        "and NAME_prefect (NAME is glmflow unless given); default: SQLite in home",
    )
    lineage_url: str = Field(default="", repr=False, description="the lineage database, if it is another one")
    tracking_uri: str = Field(default="", repr=False, description="MLflow's server or database, if it is another one")
    store_url: str = Field(default="", description="s3://bucket/prefix of the store; default: a folder in home")
    s3_endpoint_url: str = Field(default="", description="S3 endpoint, with http:// or https://; default: AWS")
    store_cache_bytes: int = Field(default=50 * 2**30, ge=0, description="limit of the copies of an S3 store, in bytes")
    prefect_port: int = Field(default=4200, ge=1, le=65535, description="port of the platform's Prefect server")
    mlflow_port: int = Field(default=5000, ge=1, le=65535, description="port of the platform's MLflow server")
    worker_limit: int = Field(default=2, ge=1, description="runs that the platform's worker has at a time")

    metrics_port: int = Field(default=9464, ge=1, le=65535, description="port of the platform's Prometheus metrics")
    metrics_open: bool = Field(default=False, description="metrics are given without a key or password, too")
    auth: SecretStr = Field(default=SecretStr(""), description="user:password of the platform; default: no password")
    api_key: SecretStr = Field(default=SecretStr(""), description="what a client of a served model has to know")
    api_key_file: str = Field(default="", description="file that holds the key instead")
    max_body_bytes: int = Field(default=8 * 2**20, ge=1, description="largest request that a served model reads")
    memory_bytes: int = Field(default=0, ge=0, description="memory that a stage may use; default: what is free")
    guards: bool = Field(
        default=True, description="a stage that does not fit into memory or onto the disk is not started"
    )

    @field_validator("home")
    @classmethod
    def _is_usable(cls, home: Path) -> Path:
        if any(p.exists() and not p.is_dir() for p in (home, *home.parents)):
            raise ValueError("want a folder, or a path where one can be made")
        return home

    @field_validator("database_url")
    @classmethod
    def _names_a_server(cls, url: str) -> str:
        if url and not _DATABASE_URL.fullmatch(url):
            raise ValueError(
                "want postgresql://user:password@host:port/NAME with %-escapes in the password, and what else the "
                "connection needs in PGSSLMODE and the like"
            )
        return url

    @field_validator("tracking_uri")
    @classmethod
    def _shows_no_credentials(cls, uri: str) -> str:
        if uri.startswith("http") and "@" in uri:  # pages link to it
            raise ValueError("want a server without credentials, and those in MLFLOW_TRACKING_USERNAME and _PASSWORD")
        return uri

    @field_validator("auth")
    @classmethod
    def _is_user_and_password(cls, auth: SecretStr) -> SecretStr:
        user, separator, password = auth.get_secret_value().partition(":")
        if auth.get_secret_value() and not (separator and user and password):
            raise ValueError("want user:password")
        return auth

    @property
    def credentials(self) -> tuple[str, str] | None:
        """User and password of the platform; None when it wants none."""
        user, _, password = self.auth.get_secret_value().partition(":")
        return (user, password) if password else None

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
        sqlite = f"sqlite:///{self.root / 'lineage.db'}"
        return _with_driver(self.lineage_url or self._on_server("lineage") or sqlite)

    def resolved_tracking_uri(self) -> str:
        """MLflow's tracking and registry URI."""
        return _with_driver(self.tracking_uri or self._on_server("mlflow") or f"sqlite:///{self.root / 'mlflow.db'}")

    def resolved_prefect_url(self) -> str:
        """The database of this home's Prefect server, as Prefect wants it."""
        sqlite = f"sqlite+aiosqlite:///{self.root / 'prefect/prefect.db'}"
        return _with_driver(self._on_server("prefect") or sqlite, "asyncpg")

    def _on_server(self, name: str) -> str:
        if not self.database_url:
            return ""
        parts = urlsplit(self.database_url)
        return f"postgresql://{parts.netloc}/{parts.path.strip('/') or 'glmflow'}_{name}"


def _with_driver(url: str, driver: str = "psycopg") -> str:
    """A PostgreSQL URL with the driver that is installed; another URL as it is."""
    return re.sub(r"^postgres(ql)?(\+\w+)?://", f"postgresql+{driver}://", url)


def read_settings() -> Settings:
    """The settings. Raises BadSpecError that names the variable, what was wanted and what was there."""
    try:
        return Settings()
    except ValidationError as error:
        problem = error.errors(include_url=False)[0]
        name = str(problem["loc"][0])
        wanted = problem["msg"].removeprefix("Value error, ")
        got = repr(str(problem["input"])[:60]) if name not in SECRETS else "another, which is not shown"
        raise BadSpecError(f"GLMFLOW_{name.upper()}: {wanted}, got {got}; set it anew") from error


def go_offline() -> None:
    """Set OFFLINE_ENVIRONMENT in this process (what is set already stays)."""
    for name, value in OFFLINE_ENVIRONMENT.items():
        os.environ.setdefault(name, value)
