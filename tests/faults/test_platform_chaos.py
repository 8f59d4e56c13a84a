"""Everything of a platform is killed in turn while a run goes on: it is finished, and nothing is lost or doubled.

The databases are on a real PostgreSQL and the artifacts on a real S3 server, each killed and started again; the worker,
the run's own process and MLflow's server get a SIGKILL. Not covered: a machine that loses power.
"""

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.artifacts import ArtifactRef
from tests.support.lifecycle_command import outputs_of, summary_of
from tests.support.platform_books import PlatformBooks
from tests.support.platform_client import PlatformClient, words
from tests.support.postgres_server import PostgresServer
from tests.support.s3_server import CREDENTIALS, S3Server
from tests.support.store_places import S3Place
from tests.support.topics import write_topics

pytestmark = pytest.mark.nightly
OUTAGE_S = 5.0
HEARTBEATS_S = 200.0  # three missed ones of 30 s, and what the watch takes to see it
LONG = {"train_tokens": 500_000}
FIRST_CHECKPOINT = "work/pretrain/*/checkpoint/step-*"


@pytest.fixture
def platform(postgres_url: str, s3_place: S3Place, tmp_path: Path) -> Iterator[PlatformClient]:
    home = tmp_path / "home"
    write_topics(home / "documents")
    settings = {**CREDENTIALS, **s3_place.environment, "GLMFLOW_DATABASE_URL": postgres_url}
    client = PlatformClient(home, **settings)
    with client.running():
        yield client


class Run:
    """One wish, submitted again whenever the run that had it was ended."""

    def __init__(self, platform: PlatformClient, **asked: Any) -> None:
        self._platform, self._asked = platform, asked
        self.ids = [platform.start("lifecycle", **asked)]

    @property
    def state(self) -> str:
        return str(self._platform.flow_run(self.ids[-1])["state_type"])

    def go_on(self) -> None:
        if self.state in ("FAILED", "CRASHED"):
            self.ids.append(self._platform.start("lifecycle", **self._asked))

    def wait_for(self, pattern: str) -> None:
        """Wait for a new path, submitting again what has ended."""
        present, until = set(self._platform.home.glob(pattern)), time.monotonic() + 300
        while not set(self._platform.home.glob(pattern)) - present:
            assert time.monotonic() < until, self._platform.log_of(self.ids[-1])[-5:]
            self.go_on()
            time.sleep(0.2)

    def wait_for_end(self) -> None:
        while self._platform.wait_for_end(self.ids[-1])["state_type"] != "COMPLETED":
            assert len(self.ids) < 10
            self.go_on()


def test_whatever_is_killed_the_same_run_is_finished_and_nothing_is_lost_or_doubled(
    platform: PlatformClient, postgres_server: PostgresServer, s3_server: S3Server, postgres_url: str,
    tmp_path: Path, capsys: pytest.CaptureFixture[str],
):  # fmt: skip
    def outage(server: PostgresServer | S3Server) -> None:
        server.kill()
        time.sleep(OUTAGE_S)
        server.start()

    documents = {"source_folder": str(platform.home / "documents")}
    run = Run(platform, recipe="tiny", until="pretrain", seed=3, documents=documents, pretraining=LONG)
    run.wait_for("work/clean/*")
    outage(postgres_server)
    run.wait_for("work/tokenizer/*")
    outage(s3_server)
    run.wait_for(FIRST_CHECKPOINT)
    after_outages = len(run.ids)

    platform.kill(*[p for p in platform.processes() if "infra.mlflow_server" in words(p)])
    assert platform.command("status")[0] == 1
    assert platform.command("up")[0] == 0 and run.state == "RUNNING"

    platform.kill(*[p for p in platform.processes() if "worker" in words(p)])
    assert platform.command("up")[0] == 0
    assert platform.wait_for_end(run.ids[-1], 30)["state_type"] == "CRASHED"
    assert not platform.engines() and not platform.stage_processes()
    run.wait_for(FIRST_CHECKPOINT)
    platform.kill(*platform.engines())
    assert platform.wait_for_end(run.ids[-1], 60)["state_type"] == "CRASHED"
    run.wait_for_end()
    made = references(platform.page_of(run.ids[-1]))
    books, until = PlatformBooks(postgres_url), time.monotonic() + HEARTBEATS_S
    while books.open_flow_runs():  # the stage inside the killed process
        assert time.monotonic() < until, books.flow_runs()
        time.sleep(1)

    assert platform.command("down")[0] == 0 and platform.processes() == []
    with capsys.disabled():
        sys.stdout.write(
            f"\nsubmitted {after_outages} times in the outages, {len(run.ids)} in all: {books.flow_runs()}\n"
        )
    books.check_closed()
    assert {stage for stage, _ in books.stage_runs()} == made.keys()
    assert made == undisturbed(tmp_path / "undisturbed", platform.home / "documents")


def references(page: str) -> dict[str, dict[str, str]]:
    """Stage -> output -> reference, as a run's page has them."""
    made = json.loads(page.split("```json\n")[1].split("\n```", maxsplit=1)[0])
    return {
        stage: {name: ArtifactRef.model_validate(ref).short for name, ref in outputs.items()}
        for stage, outputs in made.items()
    }


def undisturbed(home: Path, documents: Path) -> dict[str, dict[str, str]]:
    """The same run on this machine alone."""
    home.mkdir()
    tokens = f"pretrain.train_tokens={LONG['train_tokens']}"
    words = ["--input", str(documents), "--until", "pretrain", "--seed", "3", "--set", tokens]
    return outputs_of(summary_of(home, *words))
