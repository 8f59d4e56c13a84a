"""The HTTP application: `/v1/chat/completions`, `/v1/completions`, `/v1/models`, `/health`, `/metrics`.

With a key, everything but `/health` wants it (`/metrics` may be open too). Not covered: quotas and TLS; put a proxy in
front where the network is not trusted.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse, Response, StreamingResponse
from starlette.exceptions import HTTPException

from infra.credentials import BearerKey, Guard
from infra.server.errors import (
    ApiError,
    answer_api_error,
    answer_http_error,
    answer_unexpected,
    answer_validation_error,
    error_response,
)
from infra.server.limits import BodyLimit
from infra.server.metrics import CONTENT_TYPE, METRICS_PATH, CountedRequests, ServerMetrics
from infra.server.protocol import Access, Sampling, TextEngine
from infra.server.requests import ChatRequest, CompletionRequest, SamplingRequest
from infra.server.responses import END_OF_STREAM, AnswerForm, ChatForm, CompletionForm, Head, sse, usage
from infra.server.worker import MAX_WAITING, EngineWorker, Finish, Job, Piece

DEFAULT_MAX_TOKENS = 256
HEALTH_PATH = "/health"
_DISCONNECT_POLL_S = 0.2


def create_app(engine: TextEngine, access: Access = Access(), max_waiting: int = MAX_WAITING) -> FastAPI:  # noqa: B008  frozen
    """The application around one engine; its thread lives as long as the application."""
    metrics = ServerMetrics(engine)
    worker = EngineWorker(engine, max_waiting, metrics)
    metrics.watch("glmflow_requests_running", "requests that the engine works on", lambda: worker.num_running)
    metrics.watch("glmflow_requests_waiting", "requests that wait for the engine", lambda: worker.num_waiting)

    @asynccontextmanager
    async def lifespan(_app: FastAPI) -> AsyncIterator[None]:
        worker.start()
        yield
        await asyncio.to_thread(worker.stop)

    # no documentation pages: they load their scripts from elsewhere
    app = FastAPI(title="glmflow", lifespan=lifespan, docs_url=None, redoc_url=None, openapi_url=None)
    app.add_exception_handler(ApiError, answer_api_error)
    app.add_exception_handler(RequestValidationError, answer_validation_error)
    app.add_exception_handler(HTTPException, answer_http_error)
    app.add_exception_handler(Exception, answer_unexpected)
    _add_status_routes(app, worker)
    _add_completion_routes(app, worker)
    _add_guards(app, access, metrics)
    return app


def _add_guards(app: FastAPI, access: Access, metrics: ServerMetrics) -> None:
    """From the inside out: what is added last sees a request first."""
    app.add_middleware(BodyLimit, max_bytes=access.max_body_bytes)
    if access.key:
        open_paths = [HEALTH_PATH, *([METRICS_PATH] if access.has_open_metrics else [])]
        app.add_middleware(Guard, credentials=BearerKey(access.key), open_paths=open_paths, refuse=_refuse)
    app.add_middleware(CountedRequests, metrics=metrics)


_refuse = error_response(
    ApiError(
        "key: want the header 'Authorization: Bearer KEY' with this server's key, got none or another; ask whoever "
        "runs the server",
        status=401,
        code="invalid_api_key",
    ),
    {"WWW-Authenticate": "Bearer"},
)


def _add_status_routes(app: FastAPI, worker: EngineWorker) -> None:
    engine = worker.engine
    model = {"id": engine.model_id, "object": "model", "created": int(time.time()), "owned_by": "glmflow"}

    @app.get(METRICS_PATH)
    async def metrics() -> Response:
        return Response(worker.metrics.text(), media_type=CONTENT_TYPE)

    @app.get(HEALTH_PATH)
    async def health() -> dict[str, Any]:
        return {
            "status": "ok",
            "model": engine.model_id,
            "fingerprint": engine.fingerprint,
            "max_context_tokens": engine.max_context_tokens,
            "running": worker.num_running,
            "waiting": worker.num_waiting,
        }

    @app.get("/v1/models")
    async def models() -> dict[str, Any]:
        return {"object": "list", "data": [model]}

    @app.get("/v1/models/{model_id:path}")
    async def one_model(model_id: str) -> dict[str, Any]:
        _check_model(model_id, engine)
        return model


def _add_completion_routes(app: FastAPI, worker: EngineWorker) -> None:
    engine = worker.engine

    @app.post("/v1/chat/completions", response_model=None)
    async def chat(body: ChatRequest, request: Request) -> Response:
        _check_model(body.model, engine)
        if body.messages[-1].role not in {"user", "tool"}:
            role, param = body.messages[-1].role, f"messages[{len(body.messages) - 1}].role"
            raise ApiError(f"{param}: want the last message from 'user' or 'tool', got {role!r}", param=param)
        try:
            prompt_ids = engine.encode_chat([message.turn() for message in body.messages])
        except ValueError as error:
            raise ApiError(f"messages: {error}", param="messages") from error
        form = ChatForm(Head(engine, "chatcmpl"), bool(body.logprobs))
        job = _submit(worker, prompt_ids, body, body.wanted_tokens, "messages")
        return await _answer(job, form, body, request)

    @app.post("/v1/completions", response_model=None)
    async def complete(body: CompletionRequest, request: Request) -> Response:
        _check_model(body.model, engine)
        prompt_ids = _prompt_ids(body.prompt, engine)
        form = CompletionForm(Head(engine, "cmpl"), body.logprobs is not None)
        job = _submit(worker, prompt_ids, body, body.max_tokens, "prompt")
        return await _answer(job, form, body, request)


def _check_model(model_id: str, engine: TextEngine) -> None:
    if model_id != engine.model_id:
        message = f"model: want {engine.model_id!r}, the one that is served, got {model_id[:60]!r}; see GET /v1/models"
        raise ApiError(message, status=404, param="model", code="model_not_found")


def _prompt_ids(prompt: str | tuple[int, ...], engine: TextEngine) -> Sequence[int]:
    if isinstance(prompt, str):
        return engine.encode_text(prompt)
    wrong = next((token for token in prompt if not 0 <= token < engine.vocab_size), None)
    if wrong is not None:
        raise ApiError(f"prompt: want token ids in 0..{engine.vocab_size - 1}, got {wrong}", param="prompt")
    return prompt


def _submit(
    worker: EngineWorker, prompt_ids: Sequence[int], body: SamplingRequest, wanted: int | None, param: str
) -> Job:
    engine = worker.engine
    limit, room = engine.max_context_tokens, engine.max_context_tokens - len(prompt_ids)
    if room < 1 or (wanted is not None and wanted > room):
        asked = f"{len(prompt_ids)} prompt tokens" + (f" + max_tokens {wanted}" if wanted is not None else "")
        message = f"{param}: want at most {limit} tokens with the answer, got {asked}; shorten the prompt or max_tokens"
        raise ApiError(message, param=param, code="context_length_exceeded")
    sampling = Sampling(
        max_new_tokens=min(DEFAULT_MAX_TOKENS, room) if wanted is None else wanted,
        temperature=engine.default_temperature if body.temperature is None else body.temperature,
        top_p=engine.default_top_p if body.top_p is None else body.top_p,
        seed=body.seed,
    )
    return worker.submit(prompt_ids, sampling, body.stop)


async def _answer(job: Job, form: AnswerForm, body: SamplingRequest, request: Request) -> Response:
    if body.stream:
        return StreamingResponse(_events(job, form, body.includes_usage), media_type="text/event-stream")
    watcher = asyncio.create_task(_cancel_on_disconnect(job, request))
    try:
        pieces = [piece async for piece in job.pieces()]
    finally:
        watcher.cancel()
    *texts, finish = pieces
    assert isinstance(finish, Finish)
    whole = form.whole([p for p in texts if isinstance(p, Piece)], finish.reason, _counts(job, finish))
    return JSONResponse(whole)


def _counts(job: Job, finish: Finish) -> dict[str, int]:
    return usage(len(job.prompt_ids), finish.num_tokens)


async def _cancel_on_disconnect(job: Job, request: Request) -> None:
    while not await request.is_disconnected():
        await asyncio.sleep(_DISCONNECT_POLL_S)
    job.cancel()


async def _events(job: Job, form: AnswerForm, includes_usage: bool) -> AsyncIterator[str]:
    """The server-sent events of one answer; closing this generator cancels the job."""
    if first := form.first():
        yield sse(first)
    try:
        async for piece in job.pieces():
            if isinstance(piece, Piece):
                if event := form.piece(piece):
                    yield sse(event)
                continue
            yield sse(form.last(piece.reason))
            if includes_usage:
                yield sse(form.counts(_counts(job, piece)))
    except ApiError as error:  # the status line is sent already, so the error is an event
        yield sse(error.body)
    finally:
        job.cancel()
    yield END_OF_STREAM
