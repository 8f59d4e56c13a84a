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
    assert Settings().resolved_lineage_url() == "postgresql://db/lineage"


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
        BadSpecError, match=r"^GLMFLOW_AUTH: .*want user:password, got another; set it anew$"
    ) as refused:
        read_settings()
    text = "".join(traceback.format_exception(refused.value))
    assert "password-alone" not in text
    monkeypatch.setenv("GLMFLOW_AUTH", "user:password-alone:x")
    assert read_settings().credentials == ("user", "password-alone:x") and Settings(auth="").credentials is None
    assert "password-alone" not in repr(read_settings())
