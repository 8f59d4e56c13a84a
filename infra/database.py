"""The databases of an installation: how one is opened, named in a message, waited for, and locked across processes.

SQLite needs nothing; PostgreSQL is talked to through psycopg (Prefect's server uses asyncpg). No message holds a
password: a URL is shown by `shown`, and psycopg's own messages name host, user and database only.

Not covered: a machine that vanishes without closing its connection keeps a lock until the server's tcp_keepalives
notice it.
"""

import fcntl
import hashlib
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import create_engine, event, func, select
from sqlalchemy.engine import URL, Engine, make_url
from sqlalchemy.exc import InterfaceError, OperationalError

from infra.errors import BadSpecError, RetryableError

T = TypeVar("T")
BUSY_TIMEOUT_S = 60
CONNECT_TIMEOUT_S = 10
OUTAGE_S = 60.0  # a server that restarts is waited for
OUTAGE_PAUSE_S = 0.5
_POSTGRES = "postgresql"
# PostgreSQL, appendix A: connection exceptions, too many connections, and a server that ends or starts.
_PASSING_STATES = ("08", "53300", "57P01", "57P02", "57P03")
# What libpq says of a server that answers and refuses; it gives no code for it.
_REFUSALS = ("authentication failed", "does not exist", "no pg_hba.conf entry", "no password supplied", "not permitted")
_MAX_REASON_CHARS = 160


def shown(url: str | URL) -> str:
    """The URL without its password, for people."""
    return make_url(url).render_as_string(hide_password=True)


def without_async_driver(url: str) -> str:
    """The URL of Prefect's database as ours: psycopg for asyncpg, the standard library for aiosqlite."""
    return url.replace("+asyncpg://", "+psycopg://", 1).replace("+aiosqlite://", "://", 1)


def open_engine(url: str) -> Engine:
    """An engine on the database behind `url`; a missing folder of a SQLite file is made."""
    parsed = make_url(url)
    if parsed.get_backend_name() == _POSTGRES:
        return create_engine(url, pool_pre_ping=True, connect_args={"connect_timeout": CONNECT_TIMEOUT_S})
    if parsed.database:
        Path(parsed.database).parent.mkdir(parents=True, exist_ok=True)
    engine = create_engine(url, connect_args={"timeout": BUSY_TIMEOUT_S})

    @event.listens_for(engine, "connect")
    def _pragmas(connection: Any, _record: Any) -> None:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.execute("PRAGMA foreign_keys=ON")

    return engine


@contextmanager
def closing_engine(url: str) -> Iterator[Engine]:
    """An engine for one block; its connections are closed after it."""
    engine = open_engine(url)
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def exclusive(engine: Engine, name: str) -> Iterator[None]:
    """At most one block of this name at a time among everything that uses this database; others wait.

    PostgreSQL: an advisory lock of a connection of its own, so a killed holder loses it. SQLite: a file lock beside
    the database. A block must not enter another one of its own name. Raises RetryableError when the lock was lost.
    """
    if engine.dialect.name == _POSTGRES:
        with _advisory_lock(engine, name):
            yield
    elif engine.url.database:
        with Path(f"{engine.url.database}.{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield
    else:  # in memory: nobody else sees it
        yield


@contextmanager
def _advisory_lock(engine: Engine, name: str) -> Iterator[None]:
    key = int.from_bytes(hashlib.sha256(f"glmflow/{name}".encode()).digest()[:8], signed=True)
    with patiently(engine, engine.connect) as connection:
        connection.execution_options(isolation_level="AUTOCOMMIT")
        connection.detach()  # to be closed and not given back: whatever happens, the lock ends with it
        connection.execute(select(func.pg_advisory_lock(key)))
        yield
        try:
            connection.execute(select(func.pg_advisory_unlock(key)))
        except (OperationalError, InterfaceError) as error:
            raise RetryableError(
                f"lock {name!r} in {shown(engine.url)}: want it kept until the end, got {_reason(error)}; "
                f"run the same command again"
            ) from error


def patiently(engine: Engine, action: Callable[[], T]) -> T:
    """What `action` returns; a server that is away is waited for. `action` may be called again after it was cut off.

    Raises RetryableError when the server stays away, and BadSpecError when it refuses us.
    """
    until = time.monotonic() + OUTAGE_S
    while True:
        try:
            return action()
        except (OperationalError, InterfaceError) as error:
            if engine.dialect.name != _POSTGRES:
                raise
            where = shown(engine.url)
            if any(said in str(error.orig) for said in _REFUSALS):
                raise BadSpecError(
                    f"database {where}: want a database that lets us in, got {_reason(error)}; "
                    f"set GLMFLOW_DATABASE_URL, or make the role and the database (README, PostgreSQL)"
                ) from error
            if not _is_passing(error):
                raise
            if time.monotonic() > until:
                raise RetryableError(
                    f"database {where}: want an answer, got {_reason(error)} for {OUTAGE_S:.0f} s; "
                    f"start it, then run the same command again"
                ) from error
            time.sleep(OUTAGE_PAUSE_S)


def _is_passing(error: OperationalError | InterfaceError) -> bool:
    state = getattr(error.orig, "sqlstate", None)
    return state is None or str(state).startswith(_PASSING_STATES)


def _reason(error: OperationalError | InterfaceError) -> str:
    return " ".join(str(error.orig).split())[:_MAX_REASON_CHARS]
