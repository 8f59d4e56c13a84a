"""Put this folder first on PYTHONPATH: every Python process below then reports and refuses to reach beyond loopback.

Each attempt is one line in the file named by NETWORK_GUARD_LOG. It sees Python's own sockets and name look-ups; what
native code does by itself is seen by the test's empty network namespace instead.
"""

import os
import sys
from pathlib import Path
from typing import Any

_LOOPBACK = ("127.", "localhost", "::1", "0.0.0.0", "::ffff:127.")


def _is_local(host: Any) -> bool:
    name = host.decode("ascii") if isinstance(host, bytes) else str(host or "")
    return name == "" or name.startswith(_LOOPBACK)


def _guard(event: str, arguments: tuple[Any, ...]) -> None:
    if event == "socket.connect" and isinstance(arguments[1], tuple):
        host = arguments[1][0]
    elif event == "socket.getaddrinfo":
        host = arguments[0]
    else:
        return
    if not _is_local(host):
        with Path(os.environ["NETWORK_GUARD_LOG"]).open("a") as log:
            log.write(f"{event} {host} by {' '.join(sys.argv)[:200]}\n")
        raise PermissionError(f"reached for {host} with the network off")


if "NETWORK_GUARD_LOG" in os.environ:
    sys.addaudithook(_guard)
