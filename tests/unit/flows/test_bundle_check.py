"""The check needs nothing but Python, and names every file that is not as it was packed."""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

import pytest

from flows import bundle_check


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "models/m").mkdir(parents=True)
    files = {"models/m/config.json": b"{}", "install.sh": b"echo"}
    for name, data in files.items():
        (tmp_path / name).write_bytes(data)
    digests = {name: hashlib.sha256(data).hexdigest() for name, data in files.items()}
    (tmp_path / bundle_check.MANIFEST).write_text(json.dumps({"files": digests}))
    return tmp_path


def test_a_whole_bundle_has_no_problems_also_after_it_was_installed_inside(folder: Path):
    (folder / "venv").mkdir()
    (folder / "venv/pyvenv.cfg").write_text("")
    assert bundle_check.problems(folder) == [] and bundle_check.main(folder) == 0


def test_each_file_that_differs_is_named(folder: Path, capsys: pytest.CaptureFixture[str]):
    (folder / "models/m/config.json").write_bytes(b"[]")
    (folder / "install.sh").unlink()
    (folder / "models/planted").write_bytes(b"")
    assert bundle_check.main(folder) == 2
    named = [line.split(":")[0] for line in capsys.readouterr().err.splitlines()]
    assert sorted(named) == ["install.sh", "models/m/config.json", "models/planted"]


@pytest.mark.parametrize("text", ["", "[]", '{"files": 3}', '{"other": {}}'])
def test_a_list_that_is_none_is_said_in_one_line(folder: Path, capsys: pytest.CaptureFixture[str], text: str):
    (folder / bundle_check.MANIFEST).write_text(text)
    assert bundle_check.main(folder) == 2
    assert capsys.readouterr().err.startswith("manifest.json: want a bundle's list of files, got ")


def test_it_runs_without_anything_installed(folder: Path):
    script = Path(bundle_check.__file__).read_text()
    (folder / "check.py").write_text(script)
    command = [sys.executable, "-I", "-S", str(folder / "check.py")]
    assert subprocess.run(command, cwd="/", check=False).returncode == 0
