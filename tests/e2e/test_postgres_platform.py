"""The platform with its databases on PostgreSQL, which restarts in the middle of a run; no password is ever seen."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.support.platform_books import PlatformBooks
from tests.support.platform_client import PlatformClient, words
from tests.support.postgres_server import DATABASES, PostgresServer
from tests.support.topics import write_topics

pytestmark = pytest.mark.slow
OUTAGE_S = 2.0


@pytest.fixture
def platform(postgres_url: str, tmp_path: Path) -> Iterator[PlatformClient]:
    write_topics(tmp_path / "home/documents")
    client = PlatformClient(tmp_path / "home", GLMFLOW_DATABASE_URL=postgres_url)
    with client.running():
        yield client


def test_a_run_survives_a_restart_of_the_database_and_nobody_sees_its_password(
    platform: PlatformClient, postgres_server: PostgresServer, postgres_url: str
):
    documents = {"source_folder": str(platform.home / "documents")}
    asked = {"recipe": "tiny", "until": "clean", "seed": 1, "documents": documents}
    run_id = platform.start("lifecycle", **asked)
    platform.wait_for_file("work/ingest/*", run_id)
    postgres_server.kill()
    time.sleep(OUTAGE_S)
    postgres_server.start()
    run = platform.wait_for_end(run_id)
    assert run["state_type"] == "COMPLETED", platform.log_of(run_id)
    command_lines = [" ".join(words(process)) for process in platform.processes()]
    assert platform.command("down")[0] == 0

    books = PlatformBooks(postgres_url)
    books.check_closed()
    assert books.lifecycles() == {(1, "finished"): 1} and len(books.stage_runs()) == 2
    files = {str(path): path.read_bytes() for path in platform.home.rglob("*") if path.is_file()}
    dumps = {name: postgres_server.dump(f"{postgres_url.rpartition('/')[2]}_{name}").encode() for name in DATABASES}
    assert len(files) > 10 and all(len(text) > 1000 for text in dumps.values()) and len(command_lines) >= 4
    secret = postgres_server.password
    assert [name for name, text in {**files, **dumps}.items() if secret.encode() in text] == []
    assert [line for line in command_lines if secret in line] == []
