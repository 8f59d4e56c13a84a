"""Errors in OpenAI's shape: `{"error": {"message", "type", "param", "code"}}`."""

from collections.abc import Mapping, Sequence
from typing import Any

from fastapi import Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from starlette.exceptions import HTTPException

_MAX_VALUE_CHARS = 60


class ApiError(Exception):
    """A refusal that becomes an HTTP answer."""

    def __init__(self, message: str, *, status: int = 400, param: str | None = None, code: str | None = None) -> None:
        super().__init__(message)
        self.status = status
        self.param = param
        self.code = code

    @property
    def body(self) -> dict[str, Any]:
        """The JSON body of the answer."""
        kind = "server_error" if self.status >= 500 else "invalid_request_error"
        return {"error": {"message": str(self), "type": kind, "param": self.param, "code": self.code}}


def field_name(location: Sequence[str | int]) -> str:
    """`("body", "messages", 0, "role")` -> `messages[0].role`."""
    name = ""
    for part in location[1:] if location and location[0] in {"body", "path", "query"} else location:
        name += f"[{part}]" if isinstance(part, int) else f".{part}" if name else part
    return name


def of_validation(error: RequestValidationError) -> ApiError:
    """The first problem of a request, with the field's name; the number of others is told."""
    problems = error.errors()
    first = problems[0]
    if first["type"] == "json_invalid":
        return ApiError(f"body: want a JSON object, got text that is not JSON ({first['ctx']['error']})", code="json")
    name = field_name(first["loc"])
    more = f" (and {len(problems) - 1} more)" if len(problems) > 1 else ""
    if first["type"] == "value_error":
        return ApiError(f"{name}: {first['ctx']['error']}{more}", param=name)
    if first["type"] == "extra_forbidden":
        return ApiError(f"{name}: not a parameter of this server; leave it out{more}", param=name, code="unknown")
    value = "nothing" if first["type"] == "missing" else repr(first["input"])[:_MAX_VALUE_CHARS]
    message = str(first["msg"]).replace("Input should be", "want").replace("Field required", "want a value")
    return ApiError(f"{name or 'body'}: {message}, got {value}{more}", param=name or None)


async def answer_api_error(_request: Request, error: Exception) -> JSONResponse:
    """Exception handler for ApiError."""
    assert isinstance(error, ApiError)
    return error_response(error)


def error_response(error: ApiError, headers: Mapping[str, str] | None = None) -> JSONResponse:
    """The answer that an error is."""
    retry = {"Retry-After": "1"} if error.status == 503 else {}
    return JSONResponse(error.body, status_code=error.status, headers={**retry, **(headers or {})})


async def answer_validation_error(request: Request, error: Exception) -> JSONResponse:
    """Exception handler for what FastAPI's validation refuses."""
    assert isinstance(error, RequestValidationError)
    return await answer_api_error(request, of_validation(error))


async def answer_unexpected(request: Request, error: Exception) -> JSONResponse:
    """Exception handler for everything else; the server logs the traceback."""
    return await answer_api_error(request, ApiError(f"server: {type(error).__name__}", status=500, code="unexpected"))


async def answer_http_error(request: Request, error: Exception) -> JSONResponse:
    """Exception handler for unknown paths and methods."""
    assert isinstance(error, HTTPException)
    what = f"{request.method} {request.url.path}: {error.detail}; see GET /v1/models for a path that works"
    if error.status_code == 400:  # FastAPI's, for JSON that its parser gives up on
        what = "body: want a JSON object, got one that cannot be read; send it as UTF-8, and not nested so deeply"
    return await answer_api_error(request, ApiError(what, status=error.status_code))
