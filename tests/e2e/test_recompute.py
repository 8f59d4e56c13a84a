"""What makes a stage run again, seen from the command line: an edited helper, a deleted artifact; and what does not."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from infra.settings import Settings
from infra.stores.local import LocalStore
from tests.support.lifecycle_command import GUARD, ROOT, environment
from tests.support.topics import write_topics

pytestmark = pytest.mark.nightly
PACKAGES = ("flows", "infra", "kernels", "models", "stages")
HELPER = "stages/filters/base.py"  # of `clean`, and of no other stage here


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """A copy of the source tree that may be edited."""
    for package in PACKAGES:
        shutil.copytree(ROOT / package, tmp_path / "tree" / package, ignore=shutil.ignore_patterns("__pycache__"))
    return tmp_path / "tree"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    write_topics(tmp_path / "home/documents")
    return tmp_path / "home"


def run(tree: Path, home: Path) -> dict[str, tuple[bool, str]]:
    """Stage -> whether it was cached, and what it made."""
    words = ["run", "tiny", "--input", str(home / "documents"), "--until", "dedup", "--json"]
    env = environment(home, PYTHONPATH=os.pathsep.join([str(GUARD), str(tree)]))
    command = [sys.executable, "-m", "flows.cli", *words]
    done = subprocess.run(command, check=False, cwd=tree, env=env, text=True, capture_output=True, timeout=600)
    assert done.returncode == 0, done.stderr
    stages = json.loads(done.stdout)["stages"]
    return {stage["label"]: (stage["cached"], *stage["outputs"].values()) for stage in stages}


def test_a_stage_runs_again_when_its_helper_or_its_artifact_changed_and_not_otherwise(tree: Path, home: Path):
    first = run(tree, home)
    assert not any(is_cached for is_cached, _ in first.values())
    path = tree / HELPER
    path.write_text(path.read_text() + "\n\n# A comment changes nothing.\n")
    assert all(is_cached for is_cached, _ in run(tree, home).values())

    path.write_text(path.read_text() + "\n\ndef _unused() -> int:\n    return 1\n")
    edited = run(tree, home)
    assert {label: is_cached for label, (is_cached, _) in edited.items()} == {
        "ingest": True, "clean": False, "dedup": True,  # its input is the same bytes
    }  # fmt: skip
    assert {label: made for label, (_, made) in edited.items()} == {label: made for label, (_, made) in first.items()}

    store = LocalStore(Settings(home=home).store_dir)
    kind, _, digest = edited["dedup"][1].partition(":")
    shutil.rmtree(store.path(store.find(digest, (kind,))))
    assert {label: is_cached for label, (is_cached, _) in run(tree, home).items()} == {
        "ingest": True, "clean": True, "dedup": False,
    }  # fmt: skip
    store.verify_bytes(store.find(digest, (kind,)))
