"""One thread that runs the engine, one request after the other; async code waits for its pieces of text."""

import asyncio
import logging
import queue
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from infra.server.errors import ApiError
from infra.server.metrics import AnswerClock, ServerMetrics
from infra.server.protocol import FinishReason, Sampling, TextEngine
from infra.server.text_stream import TextStream

MAX_WAITING = 64
_log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TokenLogprob:
    """A generated token with its log-probability under the model (before temperature)."""

    token_id: int
    logprob: float


@dataclass(frozen=True)
class Piece:
    """Text that became certain, with the token that made it so (None: what was held back, at the end)."""

    text: str
    token: TokenLogprob | None = None


@dataclass(frozen=True)
class Finish:
    """The end of an answer."""

    reason: FinishReason
    num_tokens: int


@dataclass
class Job:
    """One request on its way through the engine."""

    prompt_ids: list[int]
    sampling: Sampling
    stop_strings: tuple[str, ...]
    loop: asyncio.AbstractEventLoop
    events: asyncio.Queue[Piece | Finish | ApiError] = field(default_factory=asyncio.Queue)
    is_cancelled: threading.Event = field(default_factory=threading.Event)
    asked_at_s: float = field(default_factory=time.monotonic)

    def post(self, event: Piece | Finish | ApiError) -> None:
        """Hand an event to the waiting coroutine; from the engine's thread."""
        try:
            self.loop.call_soon_threadsafe(self.events.put_nowait, event)
        except RuntimeError:  # the server's event loop has ended: nobody is waiting any more
            self.is_cancelled.set()

    def cancel(self) -> None:
        """Nobody reads the answer any more: the engine stops at the next token."""
        self.is_cancelled.set()

    async def pieces(self) -> AsyncIterator[Piece | Finish]:
        """Pieces as they come, then one Finish. Raises ApiError when the engine failed or stops."""
        try:
            while True:
                event = await self.events.get()
                if isinstance(event, ApiError):
                    raise event
                yield event
                if isinstance(event, Finish):
                    return
        finally:
            self.cancel()


class EngineWorker:
    """The engine's thread and the queue in front of it."""

    def __init__(
        self, engine: TextEngine, max_waiting: int = MAX_WAITING, metrics: ServerMetrics | None = None
    ) -> None:
        self.engine = engine
        self.metrics = metrics or ServerMetrics(engine)
        self._waiting: queue.Queue[Job | None] = queue.Queue(max_waiting)
        self._thread = threading.Thread(target=self._run, name="engine", daemon=True)
        self._running: Job | None = None
        self._is_stopping = threading.Event()

    @property
    def num_waiting(self) -> int:
        """Requests that wait for the engine."""
        return self._waiting.qsize()

    @property
    def num_running(self) -> int:
        """Requests that the engine works on: 0 or 1."""
        return int(self._running is not None)

    def start(self) -> None:
        """Start the thread."""
        self._thread.start()

    def stop(self, timeout_s: float = 10.0) -> None:
        """End the running request at its next token and the thread with it."""
        self._is_stopping.set()
        if running := self._running:
            running.cancel()
        with suppress(queue.Full):  # the thread empties the queue quickly now; it is a daemon in any case
            self._waiting.put(None, timeout=timeout_s)
        self._thread.join(timeout_s)

    def submit(self, prompt_ids: Sequence[int], sampling: Sampling, stop_strings: tuple[str, ...]) -> Job:
        """Queue one request. Raises ApiError 503 when too many wait or the server is stopping."""
        job = Job(list(prompt_ids), sampling, stop_strings, asyncio.get_running_loop())
        if self._is_stopping.is_set():
            raise _stopping()
        try:
            self._waiting.put_nowait(job)
        except queue.Full as error:
            message = f"server: want at most {self._waiting.maxsize} waiting requests; ask again in a moment"
            raise ApiError(message, status=503, code="overloaded") from error
        return job

    def _run(self) -> None:
        while (job := self._waiting.get()) is not None:
            if job.is_cancelled.is_set():
                job.post(Finish("stop", 0))
                continue
            if self._is_stopping.is_set():
                job.post(_stopping())
                continue
            self._running = job
            try:
                job.post(self._answer(job))
            except Exception as error:  # the server's door: a failed request is answered, the thread lives on
                _log.exception("the engine failed")
                job.post(ApiError(f"engine: {type(error).__name__}: {error}"[:300], status=500, code="engine_failed"))
            finally:
                self._running = None

    def _answer(self, job: Job) -> Finish:
        stream, clock = TextStream(self.engine.decode, job.stop_strings), AnswerClock(self.metrics, job.asked_at_s)
        self.metrics.prompt_tokens.inc(len(job.prompt_ids))
        num_tokens = 0

        def on_token(token_id: int, logprob: float) -> bool:
            nonlocal num_tokens
            num_tokens += 1
            clock.token()
            job.post(Piece(stream.push(token_id), TokenLogprob(token_id, logprob)))
            return not (stream.is_stopped or job.is_cancelled.is_set())

        reason = self.engine.generate(job.prompt_ids, job.sampling, on_token)
        if rest := stream.finish():
            job.post(Piece(rest))
        return Finish("stop" if stream.is_stopped else reason, num_tokens)


def _stopping() -> ApiError:
    return ApiError("server: it is stopping; ask again when it is back", status=503, code="stopping")
