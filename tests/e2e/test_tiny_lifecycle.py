"""The tiny lifecycle through the command line, as a user runs it: once, again from the cache, killed and resumed.

Needs the demonstration sources (`make setup`). Nothing may reach beyond this machine: the network guard sees to it.
"""

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from infra.settings import Settings

pytestmark = pytest.mark.slow
ROOT = Path(__file__).parents[2]
GUARD = ROOT / "tests/support/network_guard"
RUN_TIMEOUT_S = 900
FIRST_CHECKPOINT = "work/pretrain/*/checkpoint/*"


def environment(home: Path) -> dict[str, str]:
    inherited = {k: v for k, v in os.environ.items() if not k.startswith(("PREFECT", "MLFLOW", "GLMFLOW"))}
    return {
        **inherited,
        "GLMFLOW_HOME": str(home),
        "NETWORK_GUARD_LOG": str(home / "network.log"),
        "PYTHONPATH": os.pathsep.join([str(GUARD), str(ROOT)]),
    }


def start(home: Path, *words: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "flows.cli", *words]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen(command, cwd=ROOT, env=environment(home), text=True, start_new_session=True, **pipes)


def glmflow(home: Path, *words: str) -> tuple[int, str, str]:
    process = start(home, *words)
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


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return new_home(tmp_path_factory.mktemp("tiny") / "home")


@pytest.fixture(scope="module")
def first(home: Path) -> dict[str, Any]:
    return summary_of(home)


def test_every_stage_runs_and_the_model_learns(first: dict[str, Any], home: Path):
    assert not any(stage["cached"] for stage in first["stages"])
    assert first["gates_passed"] is True
    assert len(first["stages"]) == 19 and len(first["quantized"]) == 2
    headlines = {stage["label"]: stage["headline"] for stage in first["stages"]}
    assert headlines["pretrain"]["after"] < headlines["pretrain"]["before"]
    assert Path(first["report"]).read_text().count("<svg") > 3
    assert not list((home / "work").glob("*/*/checkpoint")), "state of finished stages is left behind"


def test_the_second_run_is_all_cached_and_quick(first: dict[str, Any], home: Path):
    again = summary_of(home)
    assert all(stage["cached"] for stage in again["stages"])
    assert outputs_of(again) == outputs_of(first)
    assert again["wall_s"] < 60


def test_killing_the_whole_tree_in_the_middle_of_pretraining_changes_nothing(first: dict[str, Any], tmp_path: Path):
    home = new_home(tmp_path / "home")
    process = start(home, "run", "tiny", "--until", "pretrain")
    wait_for(home, FIRST_CHECKPOINT, process)
    for victim in [*psutil.Process(process.pid).children(recursive=True), psutil.Process(process.pid)]:
        victim.kill()
    process.communicate()
    resumed = summary_of(home, "--until", "pretrain")
    assert outputs_of(resumed)["pretrain"] == outputs_of(first)["pretrain"]
    assert [stage["cached"] for stage in resumed["stages"]] == [True] * 5 + [False]
    log = next(home.glob("work/pretrain/*/stage.log")).read_text()
    assert log.count("step 1/") == 1, log  # it did not start afresh


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_stop_saves_the_state_says_how_to_go_on_and_leaves_no_process(tmp_path: Path, number: int, code: int):
    home = new_home(tmp_path / "home")
    process = start(home, "run", "tiny", "--until", "pretrain")
    wait_for(home, "work/pretrain/*/metrics.jsonl", process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("\n")) == (code, 1), err
    assert "`glmflow run tiny` with the same arguments goes on from there" in err
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


def wait_for(home: Path, pattern: str, process: subprocess.Popen[str]) -> None:
    until = time.monotonic() + RUN_TIMEOUT_S
    while not list(home.glob(pattern)):
        assert process.poll() is None, process.communicate()
        assert time.monotonic() < until
        time.sleep(0.05)


def test_the_tree_of_the_model_reaches_the_source_packages(first: dict[str, Any], home: Path):
    model = outputs_of(first)["pretrain"]["model"]
    code, out, err = glmflow(home, "explain", model)
    assert code == 0, err
    for wanted in ("<- pretrain", "<- pack", "<- tokenizer", "<- dedup", "<- clean", "<- ingest", "pip django"):
        assert wanted in out


def test_runs_lists_them(first: dict[str, Any], home: Path):
    code, out, _ = glmflow(home, "runs")
    assert code == 0 and first["lifecycle"] in out


def test_a_wrong_setting_is_refused_in_one_line(home: Path):
    code, out, err = glmflow(home, "run", "tiny", "--set", "pretrain.model.num_expertz=3")
    assert (code, out, err.count("\n")) == (2, "", 1) and "has no 'num_expertz'; want one of" in err


@pytest.fixture(scope="module", autouse=True)
def nothing_reached_outside(home: Path) -> Iterator[None]:
    yield
    log = home / "network.log"
    assert not log.exists(), log.read_text()
