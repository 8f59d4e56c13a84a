"""The doctor names what is missing and what to do about it."""

import os
import shutil
from pathlib import Path

import pytest

from flows import doctor
from flows.doctor import Finding, examine, pins
from infra.settings import Settings


def finding(subject: str, settings: Settings) -> Finding:
    return next(item for item in examine(settings) if item.subject == subject)


def test_a_new_home_lacks_the_sources_and_says_how_to_get_them(tmp_path: Path):
    missing = finding("sources", Settings(home=tmp_path / "new"))
    assert missing.level == "missing" and "`make setup` fetches it" in missing.text
    (tmp_path / "home/sources").mkdir(parents=True)
    (tmp_path / "home/sources/x").write_text("x")
    assert finding("sources", Settings(home=tmp_path / "home")).level == "ok"


def test_pins_are_compared_with_what_is_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "SOURCE_ROOT", tmp_path)
    assert finding("distributions", Settings(home=tmp_path)).level == "note"
    (tmp_path / "constraints.txt").write_text("pydantic==0.1\nnot_installed==1\n")
    assert "pydantic " in finding("distributions", Settings(home=tmp_path)).text
    monkeypatch.setattr(doctor, "_direct_requirements", lambda: ["surely-not-installed"])
    absent = finding("distributions", Settings(home=tmp_path))
    assert absent.level == "missing" and absent.text.startswith("not installed: surely-not-installed; `make setup`")


def test_pins_are_read_from_constraints():
    assert dict(pins("# x\nA_b==1.2  # why\nc==3 ; python_version > '3'\n-e .\n")) == {"a-b": "1.2", "c": "3"}


def test_a_full_disk_and_too_many_threads_are_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(doctor, "MIN_DISK_BYTES", 1 << 60)
    assert finding("disk", Settings(home=tmp_path)).level == "missing"
    assert finding("cores", Settings(home=tmp_path, threads=(os.cpu_count() or 1) + 1)).level == "note"


def test_apt_and_a_compiler_are_optional(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(shutil, "which", lambda name: None)
    findings = [finding(subject, Settings(home=tmp_path)) for subject in ("apt", "compiler")]
    assert [item.level for item in findings] == ["note", "note"]
