"""Laws of the HTTP application, with an engine whose answers are known."""

import json
from collections.abc import Iterator

import pytest
from fastapi.testclient import TestClient

from infra.server.app import DEFAULT_MAX_TOKENS, create_app
from infra.server.protocol import Sampling
from tests.support.scripted_engine import ROLE_ID, ScriptedEngine

CHAT = {"model": "scripted", "messages": [{"role": "user", "content": "hi"}]}
TEXT = {"model": "scripted", "prompt": "hi"}


@pytest.fixture
def engine() -> ScriptedEngine:
    return ScriptedEngine("h\u00e9llo \u4f60\u597d")


@pytest.fixture
def client(engine: ScriptedEngine) -> Iterator[TestClient]:
    with TestClient(create_app(engine)) as client:
        yield client


def events_of(client: TestClient, path: str, body: dict) -> list[dict]:
    lines = client.post(path, json=body | {"stream": True}).text.split("\n\n")
    assert lines[-2:] == ["data: [DONE]", ""]
    return [json.loads(line.removeprefix("data: ")) for line in lines[:-2]]


def error_of(client: TestClient, path: str, body, status: int = 400) -> dict:
    response = client.post(path, json=body)
    assert response.status_code == status, response.text
    return response.json()["error"]


def test_health_tells_what_is_served(client: TestClient):
    health = client.get("/health").json()
    assert (health["status"], health["model"], health["running"], health["waiting"]) == ("ok", "scripted", 0, 0)


def test_models_lists_the_one_that_is_served(client: TestClient):
    listed = client.get("/v1/models").json()["data"]
    assert [model["id"] for model in listed] == ["scripted"]
    assert client.get("/v1/models/scripted").json() == listed[0]


def test_a_chat_answer_counts_its_tokens(client: TestClient, engine: ScriptedEngine):
    answer = client.post("/v1/chat/completions", json=CHAT).json()
    assert answer["choices"][0]["message"] == {"role": "assistant", "content": "h\u00e9llo \u4f60\u597d"}
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert answer["usage"] == {
        "prompt_tokens": 4, "completion_tokens": len(engine.reply), "total_tokens": 4 + len(engine.reply)
    }  # fmt: skip


@pytest.mark.parametrize("extra", [{}, {"stop": "lo"}, {"max_tokens": 4}, {"stop": ["\u597d", "zz"]}])
def test_a_stream_says_what_the_whole_answer_says(client: TestClient, extra: dict):
    chat = client.post("/v1/chat/completions", json=CHAT | extra).json()["choices"][0]
    events = events_of(client, "/v1/chat/completions", CHAT | extra)
    assert "".join(e["choices"][0]["delta"].get("content", "") for e in events) == chat["message"]["content"]
    assert events[-1]["choices"][0]["finish_reason"] == chat["finish_reason"]
    text = client.post("/v1/completions", json=TEXT | extra).json()["choices"][0]
    events = events_of(client, "/v1/completions", TEXT | extra)
    assert "".join(e["choices"][0]["text"] for e in events) == text["text"] == chat["message"]["content"]


def test_a_stream_ends_with_the_counts_where_they_are_asked_for(client: TestClient, engine: ScriptedEngine):
    body = CHAT | {"stream_options": {"include_usage": True}}
    last = events_of(client, "/v1/chat/completions", body)[-1]
    assert (last["choices"], last["usage"]["completion_tokens"]) == ([], len(engine.reply))


def test_sampling_reaches_the_engine_and_defaults_come_from_it(client: TestClient, engine: ScriptedEngine):
    client.post("/v1/chat/completions", json=CHAT | {"temperature": 0, "top_p": 0.5, "seed": 7, "max_tokens": 3})
    client.post("/v1/chat/completions", json=CHAT)
    assert engine.samplings == [
        Sampling(max_new_tokens=3, temperature=0, top_p=0.5, seed=7),
        Sampling(max_new_tokens=DEFAULT_MAX_TOKENS, temperature=1.0, top_p=1.0, seed=None),
    ]


def test_token_ids_are_a_prompt_too(client: TestClient, engine: ScriptedEngine):
    client.post("/v1/completions", json=TEXT | {"prompt": [5, 6]})
    assert engine.prompts == [[5, 6]]
    assert (
        "want token ids in 0..257, got 258" in error_of(client, "/v1/completions", TEXT | {"prompt": [258]})["message"]
    )


def test_role_tokens_in_user_text_stay_text(client: TestClient, engine: ScriptedEngine):
    client.post("/v1/chat/completions", json=CHAT | {"messages": [{"role": "user", "content": "<|assistant|>"}]})
    assert engine.prompts[0].count(ROLE_ID) == 2


def test_logprobs_come_with_every_token(client: TestClient, engine: ScriptedEngine):
    answer = client.post("/v1/chat/completions", json=CHAT | {"logprobs": True}).json()
    content = answer["choices"][0]["logprobs"]["content"]
    assert [entry["logprob"] for entry in content] == [-0.5] * len(engine.reply)


@pytest.mark.parametrize(
    ("body", "param", "message"),
    [
        ({"n": 2}, "n", "n: want 1, got 2; one answer a request"),
        ({"temperature": 3}, "temperature", "temperature: want less than or equal to 2, got 3"),
        ({"messages": []}, "messages", "messages: List should have at least 1 item"),
        ({"messages": [{"role": "cat", "content": "x"}]}, "messages[0].role", "got 'cat'"),
        ({"messages": [{"role": "user"}]}, "messages[0].content", "want a value, got nothing"),
        ({"colour": 1}, "colour", "colour: not a parameter of this server; leave it out"),
        ({"messages": [{"role": "assistant", "content": "x"}]}, "messages[0].role", "want the last message from"),
        ({"messages": [CHAT["messages"][0], {"role": "system", "content": "x"}, CHAT["messages"][0]]}, "messages",
         "messages: want the system message first"),
    ],
)  # fmt: skip
def test_a_wrong_request_is_refused_with_the_field_named(client: TestClient, body: dict, param: str, message: str):
    error = error_of(client, "/v1/chat/completions", CHAT | body)
    assert error["param"] == param
    assert message in error["message"]
    assert error["type"] == "invalid_request_error"


def test_what_is_not_json_is_refused(client: TestClient):
    response = client.post("/v1/completions", content=b"{oops", headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert "body: want a JSON object" in response.json()["error"]["message"]
    assert "body: " in error_of(client, "/v1/completions", [1])["message"]


@pytest.mark.parametrize(
    ("path", "body", "param"),
    [
        ("/v1/chat/completions", {"messages": [{"role": "user", "content": "a\ud800"}]}, "messages[0].content"),
        ("/v1/completions", {"prompt": "\ud800"}, "prompt"),
    ],
)
def test_half_a_surrogate_pair_is_refused(client: TestClient, path: str, body: dict, param: str):
    text = json.dumps({"model": "scripted"} | body)
    response = client.post(path, content=text, headers={"content-type": "application/json"})
    assert response.status_code == 400
    assert response.json()["error"]["param"] == param
    assert "want Unicode text, got half a surrogate pair" in response.json()["error"]["message"]


def test_a_bug_is_answered_in_the_same_shape(engine: ScriptedEngine):
    engine.encode_text = None
    with TestClient(create_app(engine), raise_server_exceptions=False) as client:
        assert error_of(client, "/v1/completions", TEXT, status=500)["message"] == "server: TypeError"


def test_an_unknown_model_is_not_found(client: TestClient):
    error = error_of(client, "/v1/completions", TEXT | {"model": "other"}, status=404)
    assert (error["code"], error["param"]) == ("model_not_found", "model")
    assert client.get("/v1/models/other").status_code == 404
    assert client.get("/v2").json()["error"]["message"].startswith("GET /v2: Not Found")


@pytest.mark.parametrize("body", [{"prompt": "x" * 400}, {"prompt": "x" * 300, "max_tokens": 101}])
def test_what_does_not_fit_the_context_is_refused(client: TestClient, body: dict):
    error = error_of(client, "/v1/completions", TEXT | body)
    assert error["code"] == "context_length_exceeded"
    assert "want at most 400 tokens with the answer, got" in error["message"]


def test_the_context_may_be_filled_to_the_last_token(client: TestClient, engine: ScriptedEngine):
    engine.is_endless = True
    answer = client.post("/v1/completions", json=TEXT | {"prompt": "x" * 300}).json()
    assert answer["usage"]["total_tokens"] == engine.max_context_tokens
    assert answer["choices"][0]["finish_reason"] == "length"


def test_an_engine_that_fails_is_a_server_error_in_both_forms(client: TestClient, engine: ScriptedEngine):
    engine.failure = RuntimeError("no memory")
    assert error_of(client, "/v1/chat/completions", CHAT, status=500)["code"] == "engine_failed"
    assert events_of(client, "/v1/chat/completions", CHAT)[-1]["error"]["message"] == "engine: RuntimeError: no memory"
    engine.failure = None
    assert client.post("/v1/chat/completions", json=CHAT).status_code == 200
