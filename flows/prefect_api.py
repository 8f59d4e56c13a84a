"""A Prefect API for one `glmflow run`: our own child process, on a free port of this machine only.

Prefect's built-in ephemeral server gives up on a slow machine and prints a traceback when it ends (ORCHESTRATION P23).
This one is started first of all, gets ready while the rest is prepared, writes to a file, and is ended by its process
id. A server that the environment names in PREFECT_API_URL is used instead, and else the one that `glmflow up` started
for this home, which its record in `<home>/platform` tells.

`python -m flows.prefect_api --fd N` is the child's side; its database is in the environment, where no password is seen.
"""

import argparse
import asyncio
import os
import socket
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

import httpx

from flows.stop import StopSwitch
from infra.credentials import client_environment, server_environment
from infra.daemon import Daemon
from infra.database import closing_engine, exclusive, without_async_driver
from infra.errors import BadSpecError, RetryableError, StopRequestedError
from infra.process import ChildProcess, child_environment, die_with_parent
from infra.settings import OFFLINE_ENVIRONMENT, Settings

READY_TIMEOUT_S = 300.0
REQUEST_TIMEOUT_S = 5.0
STOP_TIMEOUT_S = 15.0
STOP_GRACE_S = 5  # for connections that stay open: a browser's page keeps one
FLUSH_TIMEOUT_S = 10.0
# What schedules, watches and triggers deployments: a run on its own needs none of it, and the cores have better to do.
_IDLE_SERVICES = ("SCHEDULER", "LATE_RUNS", "FOREMAN", "PAUSE_EXPIRATIONS", "TRIGGERS", "CANCELLATION_CLEANUP")
_COMMAND = (sys.executable, "-P", "-m", "flows.prefect_api")
DATABASE_VARIABLE = "PREFECT_API_DATABASE_CONNECTION_URL"
PLATFORM_SERVER = "prefect"  # its name among the platform's daemons
HEARTBEAT_S = 60  # of a flow run, to a server that lives longer than it


def prefect_environment(settings: Settings) -> dict[str, str]:
    """What Prefect must find in the environment before it is imported, whichever server is used."""
    return {
        **OFFLINE_ENVIRONMENT,
        **client_environment(settings),
        "PREFECT_HOME": str(settings.root / "prefect"),
        "PREFECT_LOGGING_HANDLERS_CONSOLE_LEVEL": "CRITICAL",  # people read our own lines; the API gets every line
        "PREFECT_LOGGING_TO_API_WHEN_MISSING_FLOW": "ignore",
        "PREFECT_SERVER_ALLOW_EPHEMERAL_MODE": "false",
        "PREFECT_RESULTS_PERSIST_BY_DEFAULT": "false",
        "PREFECT_CLI_PROMPT": "false",
        "PREFECT_CLIENT_RETRY_EXTRA_CODES": "500",  # the server's answer while its database is away; a minute in all
        "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": os.environ.get("PREFECT_FLOWS_HEARTBEAT_FREQUENCY", str(HEARTBEAT_S)),
    }


def server_command(listener: socket.socket) -> list[str]:
    """The command line of a server on a socket that is already open, so that nobody else can take its port."""
    listener.set_inheritable(True)
    return [*_COMMAND, "--fd", str(listener.fileno())]


def server_database(settings: Settings) -> dict[str, str]:
    """What only the server gets: which database is its own."""
    return {DATABASE_VARIABLE: os.environ.get(DATABASE_VARIABLE) or settings.resolved_prefect_url()}


def platform_api_url(settings: Settings) -> str:
    """The API of the platform that runs on this home; "" when none does."""
    record = Daemon(settings.platform_dir, PLATFORM_SERVER).running()
    return f"{record.url}/api" if record else ""


def use_api(url: str) -> None:
    """Make this process's Prefect talk to this server, past any proxy."""
    os.environ["NO_PROXY"] = ",".join(filter(None, [os.environ.get("NO_PROXY"), "127.0.0.1"]))
    os.environ["PREFECT_API_URL"] = url


def answers(health_url: str) -> bool:
    """Whether a server answers a request well."""
    try:
        return httpx.get(health_url, timeout=REQUEST_TIMEOUT_S, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def check_password(api_url: str, settings: Settings) -> None:
    """Raise BadSpecError when this server wants another password than ours."""
    reply = httpx.get(f"{api_url}/admin/version", auth=settings.credentials, timeout=REQUEST_TIMEOUT_S, trust_env=False)
    if reply.status_code == httpx.codes.UNAUTHORIZED:
        raise BadSpecError(
            f"GLMFLOW_AUTH: want the user:password that the platform at {api_url} was started with, got "
            f"{'another' if settings.credentials else 'none'}; set it"
        )


class PrefectApi:
    """The Prefect API of this run."""

    def __init__(self, settings: Settings) -> None:
        os.environ.update(prefect_environment(settings))
        self._settings = settings
        self.log_path = settings.root / "prefect" / "server.log"
        self._child: ChildProcess | None = None
        given_url = os.environ.get("PREFECT_API_URL", "") or platform_api_url(settings)
        self.url = given_url or self._start(settings)
        use_api(self.url)

    def _start(self, settings: Settings) -> str:
        """Start the server as our child."""
        with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
            url = f"http://127.0.0.1:{listener.getsockname()[1]}/api"
            idle = {f"PREFECT_SERVER_SERVICES_{name}_ENABLED": "false" for name in _IDLE_SERVICES}
            hidden = {"PREFECT_UI_ENABLED": "false", "PREFECT__SERVER_EPHEMERAL": "1", "PREFECT__SERVER_FINAL": "1"}
            self._child = ChildProcess(
                server_command(listener),
                log_path=self.log_path,
                environment=child_environment(
                    **idle, **hidden, **server_database(settings), **server_environment(settings)
                ),
                pass_fds=(listener.fileno(),),
            )
        return url

    def wait_ready(self, stop: StopSwitch, timeout_s: float = READY_TIMEOUT_S) -> None:
        """Return when the API answers. Raises RetryableError when it does not, with where to look."""
        until = time.monotonic() + timeout_s
        while not answers(f"{self.url}/health"):
            if stop.is_requested:
                raise StopRequestedError("stopped before the first stage")
            if self._child is not None and not self._child.is_running():
                raise RetryableError(f"the Prefect API did not start; its log is {self.log_path}")
            if time.monotonic() > until:
                hint = f"its log is {self.log_path}" if self._child else "check PREFECT_API_URL, or unset it"
                raise RetryableError(f"the Prefect API at {self.url} did not answer for {timeout_s:.0f} s; {hint}")
            time.sleep(0.1)
        check_password(self.url, self._settings)

    @contextmanager
    def client_settings(self) -> Iterator[None]:
        """Settings of this process's flows: heartbeats only for a server that lives longer than we do.

        Nobody watches those of our own server, and each flow waits up to a second for its heartbeat thread.
        """
        from prefect.settings import PREFECT_FLOWS_HEARTBEAT_FREQUENCY, temporary_settings

        with temporary_settings({PREFECT_FLOWS_HEARTBEAT_FREQUENCY: None} if self._child else {}):
            yield

    def close(self) -> None:
        """Stop our server; one that was given keeps running."""
        if self._child is not None:
            self._child.ask_to_stop()
            self._child.wait(STOP_TIMEOUT_S)
            self._child.end()


def flush() -> None:
    """Send what this process's Prefect client still holds back, so that the API can be closed in peace."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    for worker in (APILogWorker, EventsWorker):
        worker.drain_all(timeout=FLUSH_TIMEOUT_S)


def serve(listener: socket.socket, database: str) -> None:
    """Serve Prefect's API on an open socket; two first starts do not migrate the database at the same time."""
    import uvicorn

    config = uvicorn.Config(
        "prefect.server.api.server:create_app", factory=True, lifespan="on", log_level="warning", access_log=False,
        timeout_graceful_shutdown=STOP_GRACE_S,
    )  # fmt: skip
    with ExitStack() as starting:
        engine = starting.enter_context(closing_engine(without_async_driver(database)))
        starting.enter_context(exclusive(engine, "prefect"))
        server = uvicorn.Server(config)

        async def run() -> None:
            serving = asyncio.create_task(server.serve(sockets=[listener]))
            while not server.started and not serving.done():
                await asyncio.sleep(0.05)
            starting.close()
            await serving

        asyncio.run(run())


def main(argv: list[str] | None = None) -> None:
    """The child's side."""
    parser = argparse.ArgumentParser(prog="python -m flows.prefect_api")
    parser.add_argument("--fd", type=int, required=True)
    args = parser.parse_args(argv)
    die_with_parent()
    serve(socket.socket(fileno=args.fd), os.environ[DATABASE_VARIABLE])


if __name__ == "__main__":
    main()
