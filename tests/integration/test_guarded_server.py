"""A real server with a key and a limit, asked by a stranger, by a client with the key, and by Prometheus."""

import socket
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import openai
import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.support.server_process import scripted_server

KEY, LIMIT = "a-key-of-this-test", 4096
QUESTION = [{"role": "user", "content": "hi"}]


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with scripted_server("abc", key=KEY, max_body_bytes=LIMIT) as (_, url):
        yield url


def ask(url: str, method: str, path: str, key: str | None = KEY, **content) -> httpx.Response:
    headers = {"Content-Type": "application/json"} | ({} if key is None else {"Authorization": f"Bearer {key}"})
    return httpx.request(method, url + path, headers=headers, trust_env=False, timeout=60, **content)


def raw(url: str, request: bytes) -> bytes:
    """What a client gets that writes its own HTTP."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=30) as connection:
        connection.sendall(request)
        parts = list(iter(lambda: connection.recv(65536), b""))
    return b"".join(parts)


def series(text: str, name: str) -> dict[tuple[str, ...], float]:
    families = text_string_to_metric_families(text)
    found = [s for f in families for s in f.samples if s.name == name]
    return {tuple(sample.labels.values()): sample.value for sample in found}


@pytest.mark.parametrize("key", [None, "another", KEY + "x", KEY[:-1], KEY.upper()])
@pytest.mark.parametrize(
    ("method", "path"),
    [("GET", "/v1/models"), ("POST", "/v1/chat/completions"), ("GET", "/metrics"), ("GET", "/openapi.json"),
     ("GET", "/anything"), ("GET", "/health/../v1/models"), ("GET", "//health")],
)  # fmt: skip
def test_a_stranger_learns_nothing_but_that_a_key_is_wanted(url: str, key: str | None, method: str, path: str):
    response = ask(url, method, path, key)
    assert response.status_code == 401 and response.headers["www-authenticate"] == "Bearer"
    error = response.json()["error"]
    assert (error["type"], error["code"]) == ("invalid_request_error", "invalid_api_key")
    assert "want the header 'Authorization: Bearer KEY'" in error["message"] and KEY not in response.text


def test_health_needs_no_key_and_the_official_client_gives_one(url: str):
    assert ask(url, "GET", "/health", None).json()["status"] == "ok"
    client = openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0)
    assert client.chat.completions.create(model="scripted", messages=QUESTION).choices[0].message.content == "abc"
    stranger = openai.OpenAI(base_url=f"{url}/v1", api_key="another", max_retries=0)
    with pytest.raises(openai.AuthenticationError, match="this server's key"):
        stranger.models.list()


def test_a_large_body_is_refused_with_and_without_a_length(url: str):
    large = b'{"model": "scripted", "prompt": "' + b"x" * LIMIT + b'"}'
    assert ask(url, "POST", "/v1/completions", content=large).status_code == 413
    head = f"POST /v1/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {KEY}\r\n".encode()
    told = raw(url, head + b"Content-Length: 99999999999\r\n\r\n")
    assert told.startswith(b"HTTP/1.1 413") and b"body: want at most 4096 bytes, got 99999999999" in told
    chunk = b"400\r\n" + b"x" * 0x400 + b"\r\n"
    assert raw(url, head + b"Transfer-Encoding: chunked\r\n\r\n" + chunk * 5).startswith(b"HTTP/1.1 413")
    assert ask(url, "POST", "/v1/completions", None, content=large).status_code == 401


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"{oops", "body: want a JSON object"),
        (b"\xff\xfe", "body: want a JSON object"),
        (b"[" * 2000, "body: want a JSON object"),
        (b'{"model": "../../etc/passwd", "prompt": "x"}', "model: want 'scripted'"),
    ],
)
def test_what_is_no_request_is_refused_in_words(url: str, content: bytes, words: str):
    response = ask(url, "POST", "/v1/completions", content=content)
    assert response.status_code in (400, 404) and words in response.json()["error"]["message"]


@pytest.mark.parametrize("name", ["../../etc/passwd", "..%2f..%2fetc%2fpasswd", "%2e%2e/%2e%2e/etc/passwd"])
def test_a_model_name_leads_nowhere_else(url: str, name: str):
    head = f"GET /v1/models/{name} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nAuthorization: Bearer {KEY}\r\n\r\n"
    told = raw(url, head.encode())
    assert told.startswith(b"HTTP/1.1 404") and b"root:" not in told


def test_prometheus_reads_what_was_asked_and_answered(url: str):
    def scrape() -> str:
        return ask(url, "GET", "/metrics").raise_for_status().text

    before = scrape()
    for _ in range(2):
        asked = ask(url, "POST", "/v1/completions", json={"model": "scripted", "prompt": "four"})
    ask(url, "POST", "/v1/completions", "another")
    after = scrape()

    def grown(name: str, *labels: str) -> float:
        return series(after, name)[labels] - series(before, name).get(labels, 0)

    used = asked.json()["usage"]
    assert grown("glmflow_requests_total", "/v1/completions", "200") == 2
    assert grown("glmflow_requests_total", "/v1/completions", "401") == 1
    assert grown("glmflow_prompt_tokens_total") == 2 * used["prompt_tokens"]
    assert grown("glmflow_generated_tokens_total") == 2 * used["completion_tokens"]
    assert grown("glmflow_time_to_first_token_seconds_count") == 2
    assert grown("glmflow_token_seconds_count") == 2 * (used["completion_tokens"] - 1)
    assert grown("glmflow_token_seconds_sum") >= 2 * (used["completion_tokens"] - 1) * 0.01  # the engine's delay
    assert series(after, "glmflow_requests_running") == series(after, "glmflow_requests_waiting") == {(): 0}
    assert series(after, "glmflow_model_info") == {("fp-0", "scripted", "0" * 64): 1}
