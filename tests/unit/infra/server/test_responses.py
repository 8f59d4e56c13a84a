"""Laws of the answers."""

import json

import pytest

from infra.server.responses import ChatForm, CompletionForm, Head, sse, usage
from infra.server.worker import Piece, TokenLogprob
from tests.support.scripted_engine import ScriptedEngine

PIECES = [Piece("a", TokenLogprob(97, -0.25)), Piece("", TokenLogprob(98, -0.5)), Piece("bc", TokenLogprob(99, -1.0))]


def head(prefix: str = "x") -> Head:
    return Head(ScriptedEngine(), prefix)


def test_an_event_is_one_line_of_json_and_an_empty_line():
    event = sse({"a": "\n\u4f60"})
    assert event.startswith("data: ")
    assert event.endswith("\n\n")
    assert event.count("\n") == 2
    assert json.loads(event[6:]) == {"a": "\n\u4f60"}


def test_usage_adds_up():
    assert usage(2, 3) == {"prompt_tokens": 2, "completion_tokens": 3, "total_tokens": 5}


def test_streamed_chat_deltas_join_to_the_whole_answer():
    form = ChatForm(head(), with_logprobs=False)
    events = [form.first(), *(form.piece(p) for p in PIECES), form.last("stop")]
    deltas = [e["choices"][0]["delta"].get("content", "") for e in events if e]
    assert "".join(deltas) == form.whole(PIECES, "stop", usage(1, 3))["choices"][0]["message"]["content"] == "abc"
    assert events[2] is None
    assert events[-1]["choices"][0]["finish_reason"] == "stop"
    assert len({e["id"] for e in events if e}) == 1


def test_every_token_has_its_logprob_in_a_chat_answer():
    form = ChatForm(head(), with_logprobs=True)
    whole = form.whole(PIECES, "length", usage(1, 3))["choices"][0]["logprobs"]["content"]
    streamed = [form.piece(p)["choices"][0]["logprobs"]["content"] for p in PIECES]
    assert [entry for entries in streamed for entry in entries] == whole
    assert [(entry["token"], entry["logprob"], entry["bytes"]) for entry in whole] == [
        ("a", -0.25, [97]), ("b", -0.5, [98]), ("c", -1.0, [99])
    ]  # fmt: skip


@pytest.mark.parametrize("with_logprobs", [False, True])
def test_streamed_completions_join_to_the_whole_answer(with_logprobs: bool):
    whole = CompletionForm(head(), with_logprobs).whole(PIECES, "stop", usage(1, 3))["choices"][0]
    form = CompletionForm(head(), with_logprobs)
    events = [e for p in PIECES if (e := form.piece(p))]
    assert "".join(e["choices"][0]["text"] for e in events) == whole["text"] == "abc"
    if with_logprobs:
        offsets = [o for e in events for o in e["choices"][0]["logprobs"]["text_offset"]]
        assert offsets == whole["logprobs"]["text_offset"] == [0, 1, 1]
    assert form.first() is None
    assert form.counts(usage(1, 3))["choices"] == []
