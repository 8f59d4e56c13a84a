"""The exit code says whether something is missing."""

import argparse
from pathlib import Path

import pytest

from flows.commands import doctor
from flows.doctor import Finding


@pytest.mark.parametrize(("level", "code"), [("ok", 0), ("note", 0), ("missing", 1)])
def test_only_what_is_missing_fails(monkeypatch, capsys, tmp_path: Path, level: str, code: int):
    monkeypatch.setenv("GLMFLOW_HOME", str(tmp_path))
    monkeypatch.setattr(doctor, "examine", lambda settings: [Finding("disk", level, "a sentence")])
    assert doctor.run(argparse.Namespace()) == code
    assert capsys.readouterr().out.split() == [level, "disk", "a", "sentence"]
