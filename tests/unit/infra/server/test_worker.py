"""Laws of the engine's thread."""

import asyncio
import time

import pytest

from infra.server.errors import ApiError
from infra.server.protocol import Sampling
from infra.server.worker import EngineWorker, Finish, Job
from tests.support.scripted_engine import ScriptedEngine

GREEDY = Sampling(max_new_tokens=50, temperature=0, top_p=1)


def ask(engine: ScriptedEngine, scenario, max_waiting: int = 8):
    """Run `scenario(worker)` in an event loop with the worker started around it."""
    worker = EngineWorker(engine, max_waiting)
    worker.start()

    async def body():
        return await scenario(worker)

    try:
        return asyncio.run(body())
    finally:
        worker.stop()


async def text_of(job: Job) -> tuple[str, Finish]:
    events = [event async for event in job.pieces()]
    return "".join(event.text for event in events[:-1]), events[-1]


def test_pieces_join_to_the_reply_and_the_last_event_is_the_finish():
    async def scenario(worker: EngineWorker):
        return await text_of(worker.submit([1], GREEDY, ()))

    assert ask(ScriptedEngine("h\u00e9"), scenario) == ("h\u00e9", Finish("stop", 3))


def test_concurrent_requests_run_one_after_the_other_in_one_thread():
    engine = ScriptedEngine("abc")

    async def scenario(worker: EngineWorker):
        return await asyncio.gather(*(text_of(worker.submit([i], GREEDY, ())) for i in range(5)))

    assert [text for text, _ in ask(engine, scenario)] == ["abc"] * 5
    assert engine.threads == {"engine"}
    assert engine.prompts == [[i] for i in range(5)]


def test_a_stop_string_ends_the_engine_and_is_not_part_of_the_text():
    engine = ScriptedEngine("ab##cd", is_endless=True)

    async def scenario(worker: EngineWorker):
        return await text_of(worker.submit([1], GREEDY, ("##",)))

    assert ask(engine, scenario) == ("ab", Finish("stop", 4))
    assert engine.num_sampled == 4


def test_a_reader_that_leaves_stops_the_engine():
    engine = ScriptedEngine("abc", is_endless=True, delay_s=0.005)

    async def scenario(worker: EngineWorker):
        job = worker.submit([1], Sampling(max_new_tokens=10_000, temperature=0, top_p=1), ())
        pieces = job.pieces()
        await anext(pieces)
        await pieces.aclose()
        while worker.num_running:
            await asyncio.sleep(0.001)
        return await text_of(worker.submit([1], Sampling(max_new_tokens=3, temperature=0, top_p=1), ()))

    assert ask(engine, scenario)[0] == "abc"
    assert engine.num_sampled < 1000


def test_a_request_cancelled_while_it_waits_never_reaches_the_engine():
    engine = ScriptedEngine("abc", delay_s=0.01)

    async def scenario(worker: EngineWorker):
        first, second = worker.submit([1], GREEDY, ()), worker.submit([2], GREEDY, ())
        second.cancel()
        await text_of(first)
        return await text_of(second)

    assert ask(engine, scenario) == ("", Finish("stop", 0))
    assert engine.prompts == [[1]]


def test_a_failing_engine_fails_its_request_only():
    engine = ScriptedEngine("abc")
    engine.failure = RuntimeError("no memory")

    async def scenario(worker: EngineWorker):
        with pytest.raises(ApiError, match="engine: RuntimeError: no memory") as caught:
            await text_of(worker.submit([1], GREEDY, ()))
        engine.failure = None
        return caught.value.status, (await text_of(worker.submit([1], GREEDY, ())))[0]

    assert ask(engine, scenario) == (500, "abc")


def test_more_than_max_waiting_requests_are_refused():
    async def scenario(worker: EngineWorker):
        jobs = [worker.submit([1], GREEDY, ())]
        while not worker.num_running:
            await asyncio.sleep(0.001)
        jobs += [worker.submit([1], GREEDY, ()) for _ in range(2)]
        with pytest.raises(ApiError, match="want at most 2 waiting requests") as caught:
            worker.submit([1], GREEDY, ())
        await asyncio.gather(*(text_of(job) for job in jobs))
        return caught.value.status

    assert ask(ScriptedEngine("abc", delay_s=0.02), scenario, max_waiting=2) == 503


def test_stopping_ends_the_running_request_and_refuses_the_others():
    async def scenario(worker: EngineWorker):
        running, waiting = worker.submit([1], GREEDY, ()), worker.submit([1], GREEDY, ())
        while not worker.num_running:
            await asyncio.sleep(0.001)
        started_at = time.monotonic()
        await asyncio.to_thread(worker.stop)
        took_s = time.monotonic() - started_at
        with pytest.raises(ApiError, match="it is stopping"):
            worker.submit([1], GREEDY, ())
        with pytest.raises(ApiError, match="it is stopping"):
            await text_of(waiting)
        return (await text_of(running))[1].num_tokens, took_s

    num_tokens, took_s = ask(ScriptedEngine("abc", is_endless=True, delay_s=0.02), scenario)
    assert num_tokens < 50
    assert took_s < 1
