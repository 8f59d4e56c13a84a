"""Refuse a request whose body is too large, also one that does not say its length.

The body is read here, up to the limit, and handed on whole; so nothing behind it can be made to read more.
"""

from infra.credentials import App, Message, Receive, Scope, Send
from infra.server.errors import ApiError, error_response

TOO_LARGE, BAD_REQUEST = 413, 400


class BodyLimit:
    """An application that never sees a body of more than `max_bytes`."""

    def __init__(self, app: App, max_bytes: int) -> None:
        self.app = app
        self._max_bytes = max_bytes

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the body, then pass the request on."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        try:
            self._check_length(scope)
            replay = await self._read(receive)
        except ApiError as error:
            await error_response(error, {"Connection": "close"})(scope, receive, send)  # the rest is not read
            return
        await self.app(scope, replay, send)

    def _check_length(self, scope: Scope) -> None:
        for text in [value.decode("latin-1") for name, value in scope["headers"] if name == b"content-length"]:
            if not text.isdigit():
                raise ApiError(f"content-length: want a number, got {text[:60]!r}", status=BAD_REQUEST)
            if int(text) > self._max_bytes:
                raise self._too_large(text)

    async def _read(self, receive: Receive) -> Receive:
        messages: list[Message] = []
        num_bytes, is_complete = 0, False
        while not is_complete:
            message = await receive()
            messages.append(message)
            num_bytes += len(message.get("body", b""))
            if num_bytes > self._max_bytes:
                raise self._too_large(f"more than {self._max_bytes}")
            is_complete = message["type"] != "http.request" or not message.get("more_body", False)
        return _replayed(messages, receive)

    def _too_large(self, got: str) -> ApiError:
        return ApiError(
            f"body: want at most {self._max_bytes} bytes, got {got}; send less, or raise GLMFLOW_MAX_BODY_BYTES",
            status=TOO_LARGE,
            code="body_too_large",
        )


def _replayed(messages: list[Message], receive: Receive) -> Receive:
    waiting = iter(messages)

    async def replay() -> Message:
        for message in waiting:
            return message
        return await receive()

    return replay
