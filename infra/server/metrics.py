"""What Prometheus reads from a served model: requests, tokens, waiting, and how fast tokens come."""

import time
from collections.abc import Callable

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, Info
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest

from infra.credentials import App, Message, Receive, Scope, Send
from infra.server.protocol import TextEngine

METRICS_PATH = "/metrics"
CONTENT_TYPE = CONTENT_TYPE_LATEST
ROUTES = ("/health", METRICS_PATH, "/v1/models", "/v1/chat/completions", "/v1/completions")
_MODEL_PREFIX, _MODEL_ROUTE, _OTHER_ROUTE = "/v1/models/", "/v1/models/{model}", "other"
_FIRST_TOKEN_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
_TOKEN_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5)


class ServerMetrics:
    """The figures of one server, in a registry of their own."""

    def __init__(self, engine: TextEngine) -> None:
        self.registry = CollectorRegistry()
        self.requests = Counter("glmflow_requests", "answered requests", ["route", "status"], registry=self.registry)
        self.prompt_tokens = Counter("glmflow_prompt_tokens", "tokens read", registry=self.registry)
        self.generated_tokens = Counter("glmflow_generated_tokens", "tokens written", registry=self.registry)
        self.first_token_s = Histogram(
            "glmflow_time_to_first_token_seconds", "from a request's arrival to its first token, waiting included",
            buckets=_FIRST_TOKEN_S, registry=self.registry,
        )  # fmt: skip
        self.token_s = Histogram(
            "glmflow_token_seconds", "from one token of an answer to the next", buckets=_TOKEN_S, registry=self.registry
        )
        about = {"model": engine.model_id, "fingerprint": engine.fingerprint, "weights_sha256": engine.weights_sha256}
        Info("glmflow_model", "the model that is served", registry=self.registry).info(about)

    def watch(self, name: str, about: str, value: Callable[[], float]) -> None:
        """A figure that is looked up whenever it is asked for."""
        Gauge(name, about, registry=self.registry).set_function(value)

    def text(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self.registry)


class AnswerClock:
    """The times of one answer's tokens."""

    def __init__(self, metrics: ServerMetrics, asked_at_s: float) -> None:
        self._metrics = metrics
        self._last_at_s = asked_at_s
        self._has_begun = False

    def token(self) -> None:
        """A token has come."""
        now_s = time.monotonic()
        histogram = self._metrics.token_s if self._has_begun else self._metrics.first_token_s
        histogram.observe(now_s - self._last_at_s)
        self._has_begun, self._last_at_s = True, now_s
        self._metrics.generated_tokens.inc()


class CountedRequests:
    """An application whose answers are counted by route and status."""

    def __init__(self, app: App, metrics: ServerMetrics) -> None:
        self.app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass the request on and count its answer when that begins."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return

        async def counted(message: Message) -> None:
            if message["type"] == "http.response.start":
                self._metrics.requests.labels(route_of(scope["path"]), str(message["status"])).inc()
            await send(message)

        await self.app(scope, receive, counted)


def route_of(path: str) -> str:
    """One of few labels, whatever is asked for."""
    if path in ROUTES:
        return path
    return _MODEL_ROUTE if path.startswith(_MODEL_PREFIX) else _OTHER_ROUTE
