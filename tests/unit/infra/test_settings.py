"""Settings come from the environment and from nowhere else."""

import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from infra.errors import BadSpecError
from infra.settings import OFFLINE_ENVIRONMENT, Settings, go_offline, read_settings


def test_everything_is_kept_below_home(monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path / "home"))
    settings = Settings()
    for path in (
        settings.store_dir,
        settings.store_cache_dir,
        settings.work_dir,
        settings.sources_dir,
        settings.reports_dir,
    ):
        assert path.is_relative_to(tmp_path / "home")
    assert settings.resolved_lineage_url() == f"sqlite:///{tmp_path}/home/lineage.db"


def test_a_url_given_beats_the_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLMFLOW_LINEAGE_URL", "postgresql://db/lineage")
    assert Settings().resolved_lineage_url() == "postgresql+psycopg://db/lineage"


def test_one_server_has_a_database_for_each_purpose_and_a_url_given_for_one_beats_it(tmp_path: Path):
    settings = Settings(home=tmp_path, database_url="postgresql://me:s%40cret@db:5433/team")
    assert settings.resolved_lineage_url() == "postgresql+psycopg://me:s%40cret@db:5433/team_lineage"
    assert settings.resolved_tracking_uri() == "postgresql+psycopg://me:s%40cret@db:5433/team_mlflow"
    assert settings.resolved_prefect_url() == "postgresql+asyncpg://me:s%40cret@db:5433/team_prefect"
    unnamed = Settings(home=tmp_path, database_url="postgres://db", tracking_uri="http://tracker:5000")
    assert unnamed.resolved_lineage_url() == "postgresql+psycopg://db/glmflow_lineage"
    assert unnamed.resolved_tracking_uri() == "http://tracker:5000"
    assert Settings(home=tmp_path).resolved_prefect_url() == f"sqlite+aiosqlite:///{tmp_path}/prefect/prefect.db"


@pytest.mark.parametrize(
    "url",
    ["mysql://me:s3cret@h/d", "postgresql://me:s3cret@x@h/d", "postgresql://me:s3cret/x@h/d", "postgresql://me:s3cret@",
     "postgresql://me:s3cret@h/d?sslmode=require", "postgresql://me:s3cret@h:x/d", "s3cret"],
)  # fmt: skip
def test_a_database_that_is_no_postgresql_server_is_refused_and_not_repeated(monkeypatch: pytest.MonkeyPatch, url: str):
    monkeypatch.setenv("GLMFLOW_DATABASE_URL", url)
    with pytest.raises(
        BadSpecError, match=r"^GLMFLOW_DATABASE_URL: .*want postgresql://.*which is not shown"
    ) as caught:
        read_settings()
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_credentials_of_a_tracking_server_are_refused_where_they_would_be_shown(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLMFLOW_TRACKING_URI", "http://me:s3cret@tracker")
    with pytest.raises(BadSpecError, match=r"^GLMFLOW_TRACKING_URI: .*MLFLOW_TRACKING_USERNAME") as caught:
        read_settings()
    assert "s3cret" not in "".join(traceback.format_exception(caught.value))


def test_settings_are_shown_without_their_secrets(tmp_path: Path):
    secret = "postgresql://me:s3cret@h/d"
    settings = Settings(home=tmp_path, database_url=secret, lineage_url=secret, tracking_uri=secret)
    assert "s3cret" not in repr(settings) + str(settings)


def test_zero_threads_are_refused(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setenv("GLMFLOW_THREADS", "0")
    with pytest.raises(ValidationError, match="threads"):
        Settings()


@pytest.mark.parametrize(
    ("name", "value"), [("THREADS", "abc"), ("THREADS", "-1"), ("HOME", "/dev/null"), ("STORE_CACHE_BYTES", "-1")]
)
def test_a_wrong_setting_is_refused_by_the_name_of_its_variable(monkeypatch: pytest.MonkeyPatch, name: str, value: str):
    monkeypatch.setenv(f"GLMFLOW_{name}", value)
    with pytest.raises(BadSpecError, match=f"^GLMFLOW_{name}: .*got '{value}'; set it anew"):
        read_settings()


def test_going_offline_keeps_what_the_user_set(monkeypatch: pytest.MonkeyPatch):
    for name in OFFLINE_ENVIRONMENT:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    go_offline()
    import os

    assert os.environ["HF_HUB_OFFLINE"] == "0"
    assert os.environ["DO_NOT_TRACK"] == "true"


@pytest.mark.parametrize("value", ["password-alone", ":password-alone", "user:"])
def test_a_password_is_never_repeated(monkeypatch: pytest.MonkeyPatch, value: str):
    monkeypatch.setenv("GLMFLOW_AUTH", value)
    with pytest.raises(
        BadSpecError, match=r"^GLMFLOW_AUTH: .*want user:password, got another, which is not shown; set it anew$"
    ) as refused:
        read_settings()
    text = "".join(traceback.format_exception(refused.value))
    assert "password-alone" not in text
    monkeypatch.setenv("GLMFLOW_AUTH", "user:password-alone:x")
    assert read_settings().credentials == ("user", "password-alone:x") and Settings(auth="").credentials is None
    assert "password-alone" not in repr(read_settings())
