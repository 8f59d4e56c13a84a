"""The platform that people look at: a Prefect server, an MLflow server, its metrics and a worker, as daemons here.

Everything listens on 127.0.0.1 only. The two servers start at the same time; as soon as Prefect answers, the work pool,
the deployments of prefect.yaml and the watch over lost runs are made, and the worker starts. A service that runs
already is left alone, so starting twice does no harm. MLflow shows the tracker's database; a tracker that is a server
somewhere else is used as it is. With GLMFLOW_AUTH every one of them wants the password.
"""

import fcntl
import os
import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

import httpx

from flows.follow import tail
from flows.prefect_api import (
    PLATFORM_SERVER,
    REQUEST_TIMEOUT_S,
    answers,
    check_password,
    prefect_environment,
    server_command,
    server_database,
    use_api,
)
from infra.credentials import server_environment
from infra.daemon import Daemon
from infra.database import closing_engine, patiently, without_async_driver
from infra.errors import BadSpecError, RetryableError
from infra.process import child_environment
from infra.settings import Settings
from infra.tracker_app import APP_NAME
from infra.tracking import artifact_root, tracking_dir

HOST = "127.0.0.1"
TRACKER, WORKER, METRICS = "mlflow", "worker", "metrics"
NAMES = (PLATFORM_SERVER, TRACKER, METRICS, WORKER)
POOL = "process"
READY_TIMEOUT_S = 300.0
GRACES_S = {
    WORKER: 60.0,
    METRICS: 15.0,
    TRACKER: 15.0,
    PLATFORM_SERVER: 15.0,
}  # in this order: a worker's runs save their state first
POLL_S = 0.2
NUM_LOG_LINES = 5
_MLFLOW_COMMAND = (sys.executable, "-P", "-m", "infra.mlflow_server", "--workers", "1")
_METRICS_COMMAND = (sys.executable, "-P", "-m", "infra.exporter")
_WORKER_COMMAND = (sys.executable, "-P", "-m", "prefect", "worker", "start", "--type", "process", "--pool", POOL)


@dataclass(frozen=True)
class ServiceStatus:
    """How one service is."""

    name: str
    state: str  # running, starting, or down
    url: str
    since: datetime | None = None
    pid: int | None = None
    rss_bytes: int = 0


class Platform:
    """The services of one home."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.prefect_url = f"http://{HOST}:{settings.prefect_port}"
        self._daemons = {name: Daemon(settings.platform_dir, name) for name in NAMES}

    @property
    def api_url(self) -> str:
        """Prefect's API."""
        return f"{self._url(PLATFORM_SERVER)}/api"

    @property
    def mlflow_url(self) -> str:
        """Where runs are compared."""
        return self._url(TRACKER)

    @property
    def metrics_url(self) -> str:
        """What Prometheus reads."""
        return f"{self._url(METRICS)}/metrics"

    def up(self, prepare: Callable[[], None]) -> list[str]:
        """Start what does not run, and wait until all of it answers; returns the names of what was started.

        `prepare` is called when Prefect's API answers and before the worker starts.
        """
        check_addresses(self.settings)
        check_databases(self.settings)
        with _exclusive(self.settings.platform_dir / "start.lock"):
            os.environ.update(self._environment())
            self._end_leftovers()
            started = self._start_servers()
            self._wait(PLATFORM_SERVER)
            use_api(self.api_url)
            check_password(self.api_url, self.settings)
            prepare()
            if self._daemons[WORKER].running() is None:
                self._start_worker()
                started.append(WORKER)
            for name in (TRACKER, METRICS, WORKER):
                self._wait(name)
        return started

    def _end_leftovers(self) -> None:
        """What killed services left: a worker's runs, which save their state, and a process that has MLflow's port."""
        for name, grace_s in GRACES_S.items():
            if self._daemons[name].running() is None:
                self._daemons[name].stop(grace_s)

    def down(self) -> list[str]:
        """End everything, the worker first, so that its runs can still say how they ended."""
        with _exclusive(self.settings.platform_dir / "start.lock"):
            return [
                name
                for name, grace_s in GRACES_S.items()
                if self._daemons[name].stop(grace_s, children_first=name == WORKER)
            ]

    def status(self) -> list[ServiceStatus]:
        """How each service is, by a real request."""
        return [self._status(name) for name in NAMES]

    def _status(self, name: str) -> ServiceStatus:
        if name == TRACKER and not self._is_our_tracker:
            url = self.settings.resolved_tracking_uri()
            return ServiceStatus(name, "running" if answers(f"{url}/health") else "down", url)
        record = self._daemons[name].running()
        if record is None:
            return ServiceStatus(name, "down", self._url(name))
        state = "running" if self._is_ready(name) else "starting"
        return ServiceStatus(name, state, record.url, record.started_at, record.pid, record.rss_bytes())

    @property
    def _is_our_tracker(self) -> bool:
        return not self.settings.resolved_tracking_uri().startswith("http")

    def _url(self, name: str) -> str:
        if name == TRACKER and not self._is_our_tracker:
            return self.settings.resolved_tracking_uri()
        record = self._daemons[PLATFORM_SERVER if name == WORKER else name].running()
        ports = {TRACKER: self.settings.mlflow_port, METRICS: self.settings.metrics_port}
        return record.url if record else f"http://{HOST}:{ports.get(name, self.settings.prefect_port)}"

    def _environment(self) -> dict[str, str]:
        """What every service finds: this home, whichever folder it runs in."""
        return {
            **prefect_environment(self.settings),
            "GLMFLOW_HOME": str(self.settings.root),
            "GLMFLOW_THREADS": str(self.settings.threads),
            "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false",
        }

    def _start_servers(self) -> list[str]:
        """Both at once. Nothing is started unless every port is free."""
        wanted = {
            PLATFORM_SERVER: ("GLMFLOW_PREFECT_PORT", self.settings.prefect_port),
            METRICS: ("GLMFLOW_METRICS_PORT", self.settings.metrics_port),
        }
        if self._is_our_tracker:
            wanted[TRACKER] = ("GLMFLOW_MLFLOW_PORT", self.settings.mlflow_port)
        missing = [name for name in wanted if self._daemons[name].running() is None]
        with ExitStack() as stack:
            listeners = {name: stack.enter_context(listen(*wanted[name])) for name in missing}
            if PLATFORM_SERVER in missing:
                self._start_prefect(listeners[PLATFORM_SERVER])
            if TRACKER in missing:
                listeners[TRACKER].close()  # MLflow opens its port itself
                self._start_mlflow()
            if METRICS in missing:
                self._start_metrics(listeners[METRICS])
        return missing

    def _start_prefect(self, listener: socket.socket) -> None:
        url = f"http://{HOST}:{self.settings.prefect_port}"
        environment = child_environment(
            PREFECT_API_URL=f"{url}/api",
            PREFECT_UI_API_URL=f"{url}/api",
            PREFECT_UI_ENABLED="true",
            PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL="WARNING",  # its log is a file
            PREFECT_SERVER_UI_V2_ENABLED="false",  # the new pages ask a host outside for their feature flags
            **server_database(self.settings),
            **server_environment(self.settings),
        )
        command = server_command(listener)
        self._daemons[PLATFORM_SERVER].start(command, environment, url, (listener.fileno(),))

    def _start_mlflow(self) -> None:
        """Addresses go through the environment: a database's password must not stand in the list of processes."""
        environment = child_environment(
            MLFLOW_BACKEND_STORE_URI=self.settings.resolved_tracking_uri(),
            MLFLOW_DEFAULT_ARTIFACT_ROOT=artifact_root(self.settings) or "",
        )
        port = self.settings.mlflow_port
        command = [*_MLFLOW_COMMAND, "--host", HOST, "--port", str(port)]
        command += ["--app-name", APP_NAME] if self.settings.credentials else []
        tracking_dir(self.settings).mkdir(parents=True, exist_ok=True)
        self._daemons[TRACKER].start(command, environment, f"http://{HOST}:{port}")

    def _start_metrics(self, listener: socket.socket) -> None:
        listener.set_inheritable(True)
        command, url = (
            [*_METRICS_COMMAND, "--fd", str(listener.fileno())],
            f"http://{HOST}:{self.settings.metrics_port}",
        )
        self._daemons[METRICS].start(command, child_environment(), url, (listener.fileno(),))

    def _start_worker(self) -> None:
        environment = child_environment(
            PREFECT_API_URL=self.api_url,
            PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL="WARNING",
            PREFECT_WORKER_QUERY_SECONDS="5",
            PREFECT_WORKER_HEARTBEAT_SECONDS="10",
        )
        limit = str(self.settings.worker_limit)
        command = [*_WORKER_COMMAND, "--name", self._worker_name(), "--limit", limit]
        self._daemons[WORKER].start(command, environment, self.api_url)

    def _worker_name(self) -> str:
        return f"glmflow-{socket.gethostname()}"

    def _wait(self, name: str) -> None:
        """Return when the service answers. Raises RetryableError with the end of its log."""
        if name == TRACKER and not self._is_our_tracker:
            return
        daemon, until = self._daemons[name], time.monotonic() + READY_TIMEOUT_S
        while not self._is_ready(name):
            is_late = time.monotonic() > until
            if is_late or daemon.running() is None:
                said = "; ".join(tail(daemon.log_path, NUM_LOG_LINES)) or "nothing"
                what = f"answered nothing for {READY_TIMEOUT_S:.0f} s" if is_late else "ended"
                raise RetryableError(f"{name}: want it to start, but it {what} (its log {daemon.log_path}: {said})")
            time.sleep(POLL_S)

    def _is_ready(self, name: str) -> bool:
        if name == PLATFORM_SERVER:
            return answers(f"{self.api_url}/health")
        if name == WORKER:
            return self._worker_polls()
        return answers(f"{self._url(name)}/health")

    def _worker_polls(self) -> bool:
        """Whether Prefect has heard of the worker since it was started."""
        record = self._daemons[WORKER].running()
        url = f"{self.api_url}/work_pools/{POOL}/workers/filter"
        try:
            reply = httpx.post(url, json={}, auth=self.settings.credentials, timeout=REQUEST_TIMEOUT_S, trust_env=False)
        except httpx.HTTPError:
            return False
        if record is None or not reply.is_success:
            return False
        heard = [w["last_heartbeat_time"] for w in reply.json() if w["name"] == self._worker_name()]
        return any(datetime.fromisoformat(at) > record.started_at for at in heard if at)


def check_addresses(settings: Settings) -> None:
    """Raise BadSpecError for a database file that each service would look for in its own folder."""
    for variable, url in (
        ("GLMFLOW_TRACKING_URI", settings.tracking_uri),
        ("GLMFLOW_LINEAGE_URL", settings.lineage_url),
    ):
        if url.startswith("sqlite:///") and not url.startswith("sqlite:////"):
            raise BadSpecError(f"{variable}: want an absolute path (sqlite:////...), got {url!r}; set it anew")


def check_databases(settings: Settings) -> None:
    """Raise BadSpecError for a PostgreSQL database that does not let us in, RetryableError for one that is away."""
    urls = (settings.resolved_lineage_url(), settings.resolved_tracking_uri(), settings.resolved_prefect_url())
    for url in urls:
        if url.startswith("postgresql"):
            with closing_engine(without_async_driver(url)) as engine:
                patiently(engine, engine.connect).close()


@contextmanager
def listen(variable: str, port: int) -> Iterator[socket.socket]:
    """A socket on this port. Raises BadSpecError that names the setting when somebody else has it."""
    try:
        listener = socket.create_server((HOST, port), backlog=128)
    except OSError as error:
        raise BadSpecError(
            f"{variable}: want a free port of {HOST}, got {port} ({error.strerror}); set another, or end what listens"
        ) from error
    with listener:
        yield listener


@contextmanager
def _exclusive(path: Path) -> Iterator[None]:
    """One `up` or `down` of a home at a time."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with path.open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
