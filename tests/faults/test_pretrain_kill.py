"""Pretraining as a process of its own, killed and stopped from outside: a rerun ends in the same bits.

Every run is `python -m stages pretrain`. Not covered: a machine that loses power (fsync is called, not tested).
"""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from infra.artifacts import ArtifactRef
from tests.support.tiny_pretrain import SMALL, prepare

ROOT = Path(__file__).parents[2]
DEADLINE_S = 120
EXIT_STOPPED = 143


class Installation:
    """One GLMFLOW_HOME with its own store and lineage, and a spec that trains long enough to be interrupted."""

    def __init__(self, home: Path) -> None:
        self.home = home
        _, inputs = prepare(home)
        self.spec = home / "spec.json"
        config = SMALL | {"train_tokens": 5000, "checkpoint_every_steps": 2}
        self.spec.write_text(json.dumps({"config": config, "inputs": inputs.model_dump(mode="json"), "seed": 3}))

    def start(self) -> subprocess.Popen[str]:
        environment = os.environ | {"GLMFLOW_HOME": str(self.home), "GLMFLOW_THREADS": "1", "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-m", "stages", "pretrain", "--spec", str(self.spec)]
        return subprocess.Popen(
            command, cwd=ROOT, env=environment, text=True, start_new_session=True,
            stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
        )  # fmt: skip

    def finish(self) -> ArtifactRef:
        process = self.start()
        output, _ = process.communicate(timeout=DEADLINE_S)
        assert process.returncode == 0, output
        return ArtifactRef.model_validate(json.loads(output.splitlines()[-1])["model"])

    def wait_for_checkpoint(self, process: subprocess.Popen[str]) -> None:
        deadline = time.monotonic() + DEADLINE_S
        while not list(self.home.glob("work/pretrain/*/checkpoint/step-*")):
            assert process.poll() is None, process.communicate()[0]
            assert time.monotonic() < deadline, "no checkpoint in time"
            time.sleep(0.005)

    def losses(self) -> list[tuple[int, float]]:
        lines = next(self.home.glob("work/pretrain/*/metrics.jsonl")).read_text().splitlines()
        points = [json.loads(line) for line in lines if line.endswith("}")]
        return [(p["step"], p["value"]) for p in points if p["name"] == "pretrain/loss"]


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory: pytest.TempPathFactory) -> tuple[ArtifactRef, list[tuple[int, float]]]:
    installation = Installation(tmp_path_factory.mktemp("whole"))
    return installation.finish(), installation.losses()


@pytest.mark.parametrize("how", ["kill -9 of the group", "SIGTERM"])
def test_an_interrupted_run_goes_on_from_its_checkpoint_to_the_same_bits(
    uninterrupted: tuple[ArtifactRef, list[tuple[int, float]]], tmp_path: Path, how: str
):
    installation = Installation(tmp_path)
    process = installation.start()
    installation.wait_for_checkpoint(process)
    if how == "SIGTERM":
        process.terminate()
        output = process.communicate(timeout=DEADLINE_S)[0]
        assert process.returncode == EXIT_STOPPED, output
        assert "stopped on request with its state saved" in output
    else:
        os.killpg(process.pid, signal.SIGKILL)
        process.communicate(timeout=DEADLINE_S)
        assert process.returncode == -signal.SIGKILL
    done = dict(installation.losses())
    assert 0 < len(done) < len(uninterrupted[1])
    assert installation.finish() == uninterrupted[0]
    again = installation.losses()[len(done) :]
    assert again[0][0] > 1
    assert done | dict(again) == dict(uninterrupted[1])
