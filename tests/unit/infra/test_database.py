"""Laws of every database: a lock is held by one at a time, and no message holds a password."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from sqlalchemy import text

from infra.database import exclusive, open_engine, patiently, shown
from infra.errors import BadSpecError, RetryableError
from tests.support.postgres_server import PostgresServer


def test_blocks_of_one_name_follow_each_other_and_blocks_of_two_do_not(database_url: str):
    engine, inside, most = open_engine(database_url), [], []

    def enter(_: int) -> None:
        with exclusive(engine, "one"):
            inside.append(1)
            most.append(len(inside))
            time.sleep(0.02)
            inside.pop()

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(enter, range(12)))
    assert most == [1] * 12
    with exclusive(engine, "one"), exclusive(engine, "two"):
        pass


def test_a_block_that_raises_gives_up_its_lock(database_url: str):
    engine = open_engine(database_url)
    with pytest.raises(KeyError), exclusive(engine, "one"):
        raise KeyError
    entered = threading.Event()

    def enter() -> None:
        with exclusive(open_engine(database_url), "one"):
            entered.set()

    thread = threading.Thread(target=enter, daemon=True)
    thread.start()
    assert entered.wait(10)
    thread.join()


def test_a_database_in_memory_needs_no_lock():
    with exclusive(open_engine("sqlite://"), "one"):
        pass


def test_a_url_is_shown_without_its_password():
    assert shown("postgresql+psycopg://me:s3cret@h:5/d") == "postgresql+psycopg://me:***@h:5/d"


@pytest.mark.slow
def test_a_server_that_restarts_is_waited_for(postgres_server: PostgresServer, postgres_database: str):
    engine = open_engine(postgres_database)

    def ask() -> int:
        with engine.connect() as connection:
            return connection.execute(text("SELECT 1")).scalar_one()

    assert ask() == 1
    postgres_server.kill()
    restart = threading.Timer(1.0, postgres_server.start)
    restart.start()
    try:
        assert patiently(engine, ask) == 1
    finally:
        restart.join()


@pytest.mark.slow
def test_a_lock_that_was_lost_is_said(postgres_server: PostgresServer, postgres_database: str):
    said = r"lock 'one' in postgresql.*:\*\*\*@.*: want it kept until the end, got .*; run the same command again"
    with pytest.raises(RetryableError, match=said), exclusive(open_engine(postgres_database), "one"):
        postgres_server.kill()
        postgres_server.start()


@pytest.mark.slow
def test_a_refusal_and_an_outage_say_what_to_do_and_no_password(
    postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr("infra.database.OUTAGE_S", 0.0)
    password, url = postgres_server.password, postgres_server.url("nowhere").replace("://", "+psycopg://")
    wrong, absent = url.replace(password, "s3cret"), url.replace(f":{postgres_server.port}/", ":1/")
    for given, kind, said in (
        (url, BadSpecError, 'database "nowhere" does not exist; set GLMFLOW_DATABASE_URL, or make'),
        (wrong, BadSpecError, 'password authentication failed for user "glmflow"'),
        (absent, RetryableError, "for 0 s; start it, then run the same command again"),
    ):
        engine = open_engine(given)
        with pytest.raises(kind) as caught:
            patiently(engine, engine.connect)
        assert said in str(caught.value)
        assert password not in str(caught.value) and "s3cret" not in str(caught.value)
