"""Many runs at once on a platform whose databases are on PostgreSQL: all finish, none is lost or doubled."""

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.lifecycle_command import new_home
from tests.support.platform_books import PlatformBooks
from tests.support.platform_client import PlatformClient
from tests.support.topics import write_topics

pytestmark = pytest.mark.nightly
NUM_SEEDS = 20
DEDUP_STAGES = ("ingest", "clean", "dedup")
TIMEOUT_S = 1800


@pytest.fixture
def platform(postgres_url: str, tmp_path: Path) -> Iterator[PlatformClient]:
    home = new_home(tmp_path / "home")
    write_topics(home / "documents")
    client = PlatformClient(home, GLMFLOW_DATABASE_URL=postgres_url)
    with client.running():
        yield client


def run_all(platform: PlatformClient, wishes: list[dict[str, Any]]) -> float:
    """Submit all at once; returns how long it took until the last one was finished, in seconds."""
    started = time.monotonic()
    run_ids = [platform.start("lifecycle", recipe="tiny", **wish) for wish in wishes]
    for run_id in run_ids:
        run = platform.wait_for_end(run_id, TIMEOUT_S)
        assert run["state_type"] == "COMPLETED", (run["state"], platform.log_of(run_id)[-5:])
    return time.monotonic() - started


def test_twenty_seeds_submitted_at_once_are_twenty_runs(
    platform: PlatformClient, postgres_url: str, capsys: pytest.CaptureFixture[str]
):
    documents = {"source_folder": str(platform.home / "documents")}
    wishes = [{"until": "dedup", "seed": seed, "documents": documents} for seed in range(NUM_SEEDS)]
    wall_s = run_all(platform, wishes)
    books = PlatformBooks(postgres_url)
    with capsys.disabled():
        sys.stdout.write(f"\n{NUM_SEEDS} runs in {wall_s:.0f} s: {books.flow_runs()}\n")
    books.check_closed()
    assert books.lifecycles() == {(seed, "finished"): 1 for seed in range(NUM_SEEDS)}
    assert len(books.stage_runs()) == NUM_SEEDS * len(DEDUP_STAGES)
    states = {("lifecycle", "COMPLETED"): NUM_SEEDS} | {(stage, "COMPLETED"): NUM_SEEDS for stage in DEDUP_STAGES}
    assert books.flow_runs() == states
    assert len(books.tracked()) == NUM_SEEDS * (1 + len(DEDUP_STAGES))
    assert {status for *_, status in books.tracked()} == {"FINISHED"}


def test_two_whole_lifecycles_at_once_both_finish(
    platform: PlatformClient, postgres_url: str, capsys: pytest.CaptureFixture[str]
):
    wall_s = run_all(platform, [{"seed": seed} for seed in range(2)])
    books = PlatformBooks(postgres_url)
    with capsys.disabled():
        sys.stdout.write(f"\n2 whole runs in {wall_s:.0f} s: {books.flow_runs()}\n")
    books.check_closed()
    assert books.lifecycles() == {(0, "finished"): 1, (1, "finished"): 1}
    assert books.flow_runs()["lifecycle", "COMPLETED"] == 2
    assert set(books.flow_runs().values()) <= {2, 4, 10} and {state for _, state in books.flow_runs()} == {"COMPLETED"}
    assert {status for *_, status in books.tracked()} == {"FINISHED"}
