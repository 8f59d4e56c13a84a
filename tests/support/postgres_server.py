"""A real PostgreSQL on a free port of this machine, with a password, that can be stopped dead and started again.

Debian's program is installed where it is not there and apt may (as root); its own cluster is neither made nor started.
"""

import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg
import pytest

DATABASES = ("lineage", "mlflow", "prefect")
OWNER = "postgres"  # it refuses to run as root
READY_TIMEOUT_S = 60
QUICK = ("fsync=off", "synchronous_commit=off", "full_page_writes=off")  # a test's data need not survive the machine
_CLUSTER_SETTINGS = Path("/etc/postgresql-common/createcluster.conf")


class PostgresServer:
    """The server's process. What was written is kept across `kill` and `start`."""

    def __init__(self) -> None:
        self._programs = programs()
        self._identity = {"user": OWNER, "group": OWNER, "extra_groups": ()} if os.geteuid() == 0 else {}
        self.directory = Path(tempfile.mkdtemp(prefix="glmflow-postgres-"))
        self.password = secrets.token_hex(12)
        with socket.create_server(("127.0.0.1", 0)) as listener:
            self.port = int(listener.getsockname()[1])
        self._process: subprocess.Popen | None = None
        self._initialize()

    def _initialize(self) -> None:
        password_file = self.directory / "password"
        password_file.write_text(self.password)
        if self._identity:
            for path in (self.directory, password_file):
                shutil.chown(path, OWNER, OWNER)
        words = ("-U", "glmflow", f"--pwfile={password_file}", "--auth=scram-sha-256", "-E", "UTF8")
        command = [self._programs / "initdb", "-D", self._data, *words, "--locale=C.UTF-8", "--no-sync"]
        subprocess.run(command, check=True, capture_output=True, cwd=self.directory, **self._identity)

    @property
    def _data(self) -> Path:
        return self.directory / "data"

    def url(self, name: str) -> str:
        """What GLMFLOW_DATABASE_URL is for the databases `<name>_...`."""
        return f"postgresql://glmflow:{self.password}@127.0.0.1:{self.port}/{name}"

    def start(self) -> None:
        settings = (f"port={self.port}", "listen_addresses=127.0.0.1", f"unix_socket_directories={self.directory}")
        options = [word for setting in (*settings, "max_connections=200", *QUICK) for word in ("-c", setting)]
        with (self.directory / "server.log").open("ab") as log:
            self._process = subprocess.Popen(
                [self._programs / "postgres", "-D", self._data, *options],
                stdout=log, stderr=log, cwd=self.directory, start_new_session=True, **self._identity,
            )  # fmt: skip
        until = time.monotonic() + READY_TIMEOUT_S
        while not self._answers():
            assert self._process.poll() is None and time.monotonic() < until, self.log()
            time.sleep(0.05)

    def kill(self) -> None:
        """An immediate shutdown: connections are cut, nothing is tidied up; the next start recovers from the log."""
        if self._process is not None:
            self._process.send_signal(signal.SIGQUIT)
            self._process.wait(timeout=60)
            self._process = None

    def close(self) -> None:
        """End it, and remove what it wrote."""
        self.kill()
        shutil.rmtree(self.directory)

    def make_databases(self, name: str) -> str:
        """New databases `<name>_...`; returns their GLMFLOW_DATABASE_URL."""
        with self.connected() as connection:
            for database in DATABASES:
                connection.execute(f'CREATE DATABASE "{name}_{database}"')
        return self.url(name)

    @contextmanager
    def connected(self, database: str = "postgres") -> Iterator[psycopg.Connection]:
        url = self.url(database)
        with psycopg.connect(url, autocommit=True, connect_timeout=5) as connection:
            yield connection

    def dump(self, database: str) -> str:
        """Everything that is in a database, as text."""
        command = [self._programs / "pg_dump", "-h", "127.0.0.1", "-p", str(self.port), "-U", "glmflow", database]
        env = {**os.environ, "PGPASSWORD": self.password}
        return subprocess.run(command, check=True, env=env, capture_output=True, text=True).stdout

    def log(self) -> str:
        return (self.directory / "server.log").read_text()[-2000:]

    def _answers(self) -> bool:
        try:
            with self.connected():
                return True
        except psycopg.OperationalError:
            return False


def programs() -> Path:
    """The folder of initdb and postgres; a skip with its reason where there is none and none can be installed."""
    if not _installed():
        _install()
    found = _installed()
    assert found, "want PostgreSQL's programs after they were installed, got none in /usr/lib/postgresql"
    if os.geteuid() == 0:
        pwd.getpwnam(OWNER)
    return found[-1]


def _installed() -> list[Path]:
    beside = shutil.which("initdb")
    return sorted(path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")) or (
        [Path(beside).resolve().parent] if beside else []
    )


def _install() -> None:
    if os.geteuid() != 0 or not shutil.which("apt-get"):
        pytest.skip("wants PostgreSQL (Debian: apt-get install postgresql); it is not there, and only root may install")
    quiet = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    install = ["apt-get", "install", "-y", "--no-install-recommends"]
    for words in (["apt-get", "update"], [*install, "postgresql-common"]):
        subprocess.run(words, check=True, env=quiet, capture_output=True)
    with _CLUSTER_SETTINGS.open("a") as settings:
        settings.write("\ncreate_main_cluster = false\n")
    subprocess.run([*install, "postgresql"], check=True, env=quiet, capture_output=True)
