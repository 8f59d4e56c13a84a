"""A platform in a home of its own, and what a person does with it through Prefect's API."""

import os
import signal
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import psutil

from infra.daemon import DAEMON_VARIABLE
from tests.support.lifecycle_command import glmflow

FINAL = ("COMPLETED", "FAILED", "CANCELLED", "CRASHED")
BUSY = 503  # SQLite is locked; Prefect's own client asks again too
RUN_TIMEOUT_S = 300


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


def words(process: psutil.Process) -> list[str]:
    """Its command line; nothing for one that has just ended."""
    try:
        return process.cmdline()
    except psutil.Error:
        return []


class PlatformClient:
    """`glmflow up` of a home, and its API."""

    def __init__(self, home: Path, credentials: tuple[str, str] | None = None, **settings: str) -> None:
        self.home = home
        self.credentials = credentials
        self.prefect_port, self.mlflow_port, self.metrics_port = free_port(), free_port(), free_port()
        self.variables = {
            "GLMFLOW_PREFECT_PORT": str(self.prefect_port),
            "GLMFLOW_MLFLOW_PORT": str(self.mlflow_port),
            "GLMFLOW_METRICS_PORT": str(self.metrics_port),
            "GLMFLOW_AUTH": ":".join(credentials or ()),
            "PREFECT_FLOWS_HEARTBEAT_FREQUENCY": "30",
            **settings,
        }

    def command(self, *words: str, **variables: str) -> tuple[int, str, str]:
        return glmflow(self.home, *words, **(self.variables | variables))

    def post(self, path: str, body: dict[str, Any]) -> httpx.Response:
        url = f"http://127.0.0.1:{self.prefect_port}/api{path}"
        return httpx.post(url, json=body, auth=self.credentials, timeout=60, trust_env=False)

    def get(self, path: str) -> Any:
        url = f"http://127.0.0.1:{self.prefect_port}/api{path}"
        return httpx.get(url, auth=self.credentials, timeout=60, trust_env=False).raise_for_status().json()

    def mlflow(self, path: str, body: dict[str, Any]) -> Any:
        url = f"http://127.0.0.1:{self.mlflow_port}/api/2.0/mlflow{path}"
        reply = httpx.post(url, json=body, auth=self.credentials, timeout=60, trust_env=False)
        return reply.raise_for_status().json()

    def deployment(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/deployments/name/{name}/{name}")
        return found

    def deployments(self) -> set[str]:
        return {row["name"] for row in self.post("/deployments/filter", {}).json()}

    def submit(self, name: str, **parameters: Any) -> httpx.Response:
        path, until = f"/deployments/{self.deployment(name)['id']}/create_flow_run", time.monotonic() + 30
        while (reply := self.post(path, {"parameters": parameters})).status_code == BUSY and time.monotonic() < until:
            time.sleep(0.5)
        return reply

    def start(self, name: str, **parameters: Any) -> str:
        """Submit what must be taken; the id of the run."""
        reply = self.submit(name, **parameters)
        assert reply.is_success, reply.text
        return str(reply.json()["id"])

    def run(self, name: str, **parameters: Any) -> dict[str, Any]:
        """Submit, and wait for the end."""
        return self.wait_for_end(self.start(name, **parameters))

    def flow_run(self, run_id: str) -> dict[str, Any]:
        found: dict[str, Any] = self.get(f"/flow_runs/{run_id}")
        return found

    def wait_for_end(self, run_id: str, timeout_s: float = RUN_TIMEOUT_S) -> dict[str, Any]:
        until = time.monotonic() + timeout_s
        while (run := self.flow_run(run_id))["state_type"] not in FINAL:
            assert time.monotonic() < until, (run["state"], self.log_of(run_id)[-3:])
            time.sleep(0.5)
        return run

    def wait_for_file(self, pattern: str, run_id: str) -> Path:
        until = time.monotonic() + RUN_TIMEOUT_S
        while not (found := list(self.home.glob(pattern))):
            assert time.monotonic() < until
            assert self.flow_run(run_id)["state_type"] not in FINAL, self.log_of(run_id)
            time.sleep(0.1)
        return found[0]

    def cancel(self, run_id: str) -> None:
        state = {"type": "CANCELLING", "name": "Cancelling"}
        self.post(f"/flow_runs/{run_id}/set_state", {"state": state}).raise_for_status()

    def log_of(self, run_id: str) -> list[str]:
        rows = self.post("/logs/filter", {"logs": {"flow_run_id": {"any_": [run_id]}}, "sort": "TIMESTAMP_ASC"}).json()
        return [row["message"] for row in rows]

    def page_of(self, run_id: str) -> str:
        wanted = {"artifacts": {"flow_run_id": {"any_": [run_id]}, "key": {"any_": ["run"]}}}
        (row,) = self.post("/artifacts/filter", wanted).json()
        return str(row["data"])

    def stage_processes(self) -> list[psutil.Process]:
        """Processes of stages of this home."""
        return [p for p in self.processes() if "stages" in words(p)]

    def engines(self) -> list[psutil.Process]:
        """Processes that execute a flow run."""
        return [p for p in self.processes() if any("prefect.engine" in w or w == "engine" for w in words(p))]

    def processes(self) -> list[psutil.Process]:
        """Everything below `glmflow up` of this home."""
        found = []
        for process in psutil.process_iter():
            try:
                variables, status = process.environ(), process.status()
            except psutil.Error:
                continue
            is_ours = variables.get("GLMFLOW_HOME") == str(self.home) and DAEMON_VARIABLE in variables
            if is_ours and status != psutil.STATUS_ZOMBIE:
                found.append(process)
        return found

    @contextmanager
    def running(self) -> Iterator[None]:
        """`up` before the block, `down` after it, whatever happens."""
        try:
            code, _, err = self.command("up")
            assert code == 0, err
            yield
        finally:
            self.command("down")
            self.kill(*self.processes())

    def kill(self, *processes: psutil.Process) -> None:
        for process in processes:
            os.kill(process.pid, signal.SIGKILL)
