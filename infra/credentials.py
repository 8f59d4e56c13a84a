"""Who may use our services: a user and password for the platform, a key for a served model.

`Guard` stands in front of an ASGI application and lets nothing pass but what is named open: no route can be forgotten.
Our own clients find the platform's password in their environment, in the variables that Prefect and MLflow read; it
stands in no command line, no database and no log.
"""

import base64
import hashlib
import hmac
import ipaddress
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from infra.errors import BadSpecError
from infra.settings import Settings

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]
Answer = Callable[[Scope, Receive, Send], Awaitable[None]]

PLAIN_REFUSAL = b"want the platform's user and password; GLMFLOW_AUTH has them\n"
# What a process that only computes must not see.
SECRET_VARIABLES = (
    "GLMFLOW_AUTH", "GLMFLOW_API_KEY", "PREFECT_API_AUTH_STRING", "PREFECT_SERVER_API_AUTH_STRING",
    "MLFLOW_TRACKING_USERNAME", "MLFLOW_TRACKING_PASSWORD",
)  # fmt: skip


class Credentials(Protocol):
    """What a request has to show."""

    @property
    def challenge(self) -> str:
        """The header WWW-Authenticate."""
        ...

    def are_in(self, header: str) -> bool:
        """Whether the header Authorization shows it."""
        ...


@dataclass(frozen=True)
class BearerKey:
    """`Authorization: Bearer KEY`."""

    key: str
    challenge: str = "Bearer"

    def are_in(self, header: str) -> bool:
        """Compared in constant time, whatever the length."""
        scheme, _, given = header.partition(" ")
        return scheme.lower() == "bearer" and _are_equal(given.strip(), self.key)


@dataclass(frozen=True)
class UserPassword:
    """`Authorization: Basic ...`."""

    user: str
    password: str
    challenge: str = 'Basic realm="glmflow"'

    def are_in(self, header: str) -> bool:
        """Compared in constant time, whatever the length."""
        scheme, _, given = header.partition(" ")
        try:
            decoded = base64.b64decode(given.strip(), validate=True).decode()
        except ValueError:
            return False
        return scheme.lower() == "basic" and _are_equal(decoded, f"{self.user}:{self.password}")


def _are_equal(given: str, wanted: str) -> bool:
    digests = [hashlib.sha256(text.encode(errors="surrogateescape")).digest() for text in (given, wanted)]
    return hmac.compare_digest(*digests)


class Guard:
    """An application behind credentials. `refuse` answers a request without them; by default a plain 401."""

    def __init__(
        self, app: App, credentials: Credentials, open_paths: Iterable[str] = (), refuse: Answer | None = None
    ) -> None:
        self.app = app
        self._credentials = credentials
        self._open_paths = frozenset(open_paths)
        self._refuse = refuse or self._refuse_plainly

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass on what may pass."""
        if scope["type"] == "lifespan" or self._may_pass(scope):
            await self.app(scope, receive, send)
        elif scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1008})
        else:
            await self._refuse(scope, receive, send)

    def _may_pass(self, scope: Scope) -> bool:
        if scope["type"] == "http" and scope["path"] in self._open_paths:
            return True
        headers = [value.decode("latin-1") for name, value in scope["headers"] if name == b"authorization"]
        return len(headers) == 1 and self._credentials.are_in(headers[0])

    async def _refuse_plainly(self, _scope: Scope, _receive: Receive, send: Send) -> None:
        headers = [(b"content-type", b"text/plain"), (b"www-authenticate", self._credentials.challenge.encode())]
        await send({"type": "http.response.start", "status": 401, "headers": headers})
        await send({"type": "http.response.body", "body": PLAIN_REFUSAL})


def is_loopback(host: str) -> bool:
    """Whether only this machine reaches an address; a name that is not `localhost` counts as reachable."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def platform_guard(app: App, settings: Settings, open_paths: Iterable[str]) -> App:
    """The application behind the platform's password, if there is one."""
    return Guard(app, UserPassword(*settings.credentials), open_paths) if settings.credentials else app


def client_environment(settings: Settings) -> dict[str, str]:
    """Where Prefect's and MLflow's clients look for the platform's password."""
    if settings.credentials is None:
        return {}
    user, password = settings.credentials
    return {
        "PREFECT_API_AUTH_STRING": settings.auth.get_secret_value(),
        "MLFLOW_TRACKING_USERNAME": user,
        "MLFLOW_TRACKING_PASSWORD": password,
    }


def server_environment(settings: Settings) -> dict[str, str]:
    """Where Prefect's server looks for the password that it asks for."""
    return {"PREFECT_SERVER_API_AUTH_STRING": settings.auth.get_secret_value()} if settings.credentials else {}


def api_key(settings: Settings) -> str:
    """The key of a served model, "" for none. Raises BadSpecError for a file without one."""
    if not settings.api_key_file:
        return settings.api_key.get_secret_value()
    path = Path(settings.api_key_file)
    if settings.api_key.get_secret_value():
        raise BadSpecError("GLMFLOW_API_KEY_FILE: want one key, got GLMFLOW_API_KEY as well; unset one of them")
    try:
        key = path.read_text().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise BadSpecError(f"GLMFLOW_API_KEY_FILE: want a file with a key, got {str(path)!r} ({error})") from error
    if not key:
        raise BadSpecError(f"GLMFLOW_API_KEY_FILE: want a file with a key, got {str(path)!r}, which is empty")
    return key
