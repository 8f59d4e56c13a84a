"""The process that serves a model: `python -m stages.serving`, for `glmflow serve` and `glmflow chat`."""

import os
import secrets
import sys
import time
from pathlib import Path

from flows.follow import GrowingFile, tail
from infra.errors import StageFailedError
from infra.process import ChildProcess, child_environment
from infra.settings import Settings
from stages.serving import READY_PREFIX

READY_TIMEOUT_S = 180.0
STOP_TIMEOUT_S = 20.0


def serving_command(model_dir: Path, host: str, port: int, *, is_without_key: bool = False) -> list[str]:
    """The command line of the server process; the key is in its environment."""
    arguments = ["--model", str(model_dir), "--host", host, "--port", str(port)]
    arguments += ["--without-key"] if is_without_key else []
    return [sys.executable, "-P", "-m", "stages.serving", *arguments]


def serving_environment(settings: Settings) -> dict[str, str]:
    """The environment of the server process."""
    return child_environment(GLMFLOW_THREADS=str(settings.threads))


class ServerChild:
    """A server on a free port of this machine, for one chat; `api_key` is known to nobody else."""

    def __init__(self, model_dir: Path, settings: Settings) -> None:
        self.api_key = secrets.token_urlsafe()
        self.log_path = settings.root / "serving" / f"{os.getpid()}.log"
        self._child = ChildProcess(
            serving_command(model_dir, "127.0.0.1", 0),
            log_path=self.log_path,
            environment=serving_environment(settings) | {"GLMFLOW_API_KEY": self.api_key, "GLMFLOW_API_KEY_FILE": ""},
        )
        self._log = GrowingFile(self.log_path, skip_present=False)

    def url(self) -> str:
        """Where it listens; waits until the model is loaded."""
        until = time.monotonic() + READY_TIMEOUT_S
        while time.monotonic() < until:
            is_running = self._child.is_running()
            for line in self._log.lines():
                if line.startswith(READY_PREFIX):
                    return line.removeprefix(READY_PREFIX)
            if not is_running:
                break
            time.sleep(0.1)
        said = "; ".join(tail(self.log_path, 3)) or "nothing"
        raise StageFailedError(f"server: want it to listen, got {said!r}; its log is {self.log_path}")

    def close(self) -> None:
        """End it, and forget its log."""
        self._child.ask_to_stop()
        self._child.wait(STOP_TIMEOUT_S)
        self._child.end()
        self.log_path.unlink(missing_ok=True)
