"""`glmflow` as a user runs it, with the network guard on: in a home of its own that shares the fetched sources."""

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil

from infra.settings import Settings

ROOT = Path(__file__).parents[2]
GUARD = ROOT / "tests/support/network_guard"
RUN_TIMEOUT_S = 900


def environment(home: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "MLFLOW", "GLMFLOW"))}
    return {
        **inherited,
        "GLMFLOW_HOME": str(home),
        "NETWORK_GUARD_LOG": str(home / "network.log"),
        "PYTHONPATH": os.pathsep.join([str(GUARD), str(ROOT)]),
    }


def start(home: Path, *words: str, **variables: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flows.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    given = environment(home) | variables
    return subprocess.Popen(command, cwd=ROOT, env=given, text=True, start_new_session=True, **pipes)


def glmflow(home: Path, *words: str, **variables: str) -> tuple[int, str, str]:
    process = start(home, *words, **variables)
    out, err = process.communicate(timeout=RUN_TIMEOUT_S)
    return process.returncode, out, err


def new_home(place: Path) -> Path:
    sources = Settings().sources_dir
    assert any(sources.glob("*")), f"want the demonstration sources in {sources}; run `make setup` first"
    place.mkdir()
    (place / "sources").symlink_to(sources)
    return place


def summary_of(home: Path, *words: str) -> dict[str, Any]:
    code, out, err = glmflow(home, "run", "tiny", "--json", *words)
    assert code == 0, err
    document: dict[str, Any] = json.loads(out)
    return document


def outputs_of(summary: dict[str, Any]) -> dict[str, dict[str, str]]:
    return {stage["label"]: stage["outputs"] for stage in summary["stages"]}


def wait_for(home: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    """Wait until another path than those that are there matches the pattern."""
    present, until = set(home.glob(pattern)), time.monotonic() + RUN_TIMEOUT_S
    while not set(home.glob(pattern)) - present:
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def kill_tree(process: subprocess.Popen[str]) -> None:
    """kill -9 of the process and of everything below it, parents last."""
    for victim in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        try:
            victim.kill()
        except psutil.NoSuchProcess:  # it ended by itself since it was listed
            continue
    process.communicate()
