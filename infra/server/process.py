"""Run the application in this process until SIGTERM or SIGINT; running answers are finished first."""

import signal
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Literal

import uvicorn

from infra.credentials import App

GRACE_S = 10


class _Server(uvicorn.Server):
    """Says where it listens once it does."""

    def __init__(self, config: uvicorn.Config, on_ready: Callable[[], None]) -> None:
        super().__init__(config)
        self._on_ready = on_ready

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        await super().startup(sockets)
        if not self.should_exit:
            self._on_ready()


def bind(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one. OSError when the address cannot be had."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
    except OSError:
        listener.close()
        raise
    return listener


def url_of(listener: socket.socket) -> str:
    """`http://host:port` of a bound socket."""
    host, port = listener.getsockname()[:2]
    return f"http://[{host}]:{port}" if ":" in host else f"http://{host}:{port}"


def serve(app: App, listener: socket.socket, on_ready: Callable[[], None], *, has_lifespan: bool = True) -> None:
    """Answer requests until a signal asks to stop; returns then, or after GRACE_S seconds at most."""
    lifespan: Literal["on", "off"] = "on" if has_lifespan else "off"
    config = uvicorn.Config(
        app,
        log_level="warning",
        access_log=False,
        timeout_graceful_shutdown=GRACE_S,
        lifespan=lifespan,
    )
    # uvicorn raises the signal again once it has stopped; it has been obeyed by then, so it ends nothing
    signal.signal(signal.SIGTERM, lambda _signal, _frame: None)
    with suppress(KeyboardInterrupt):
        _Server(config, on_ready).run(sockets=[listener])
