"""A served model answers the official `openai` client over HTTP, and says what models.generate says."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openai
import pytest

from infra.artifacts import Model
from infra.stores.local import LocalStore
from models.generate import generate
from stages.contract import StageContext
from stages.quantize import QuantizeConfig, QuantizeInputs
from stages.quantize import run as quantize
from stages.quantizers.rtn import RoundToNearest
from stages.serving import READY_PREFIX, GlmEngine
from tests.support.tiny_release import write_model

ROOT = Path(__file__).parents[2]
HELLO: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "Hello <|user|> there"}]


def start(directory: Path) -> subprocess.Popen:
    command = [sys.executable, "-m", "stages.serving", "--model", str(directory), "--port", "0", "--name", "tiny"]
    environment = os.environ | {"GLMFLOW_THREADS": "1"}
    return subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment)


def client_of(process: subprocess.Popen) -> openai.OpenAI:
    line = process.stdout.readline()
    assert line.startswith(READY_PREFIX), line
    url = line.removeprefix(READY_PREFIX).strip()
    assert f"OpenAI base URL {url}/v1" in process.stdout.readline()
    return openai.OpenAI(base_url=f"{url}/v1", api_key="unused", max_retries=0, timeout=60)


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_model(tmp_path_factory.mktemp("served") / "model", seed=3)


@pytest.fixture(scope="module")
def packed(directory: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("packed")
    ctx = StageContext(LocalStore(root / "store"), root / "work")
    ctx.scratch.mkdir(parents=True)
    config = QuantizeConfig(quantizer=RoundToNearest(bits=4))
    made = quantize(config, QuantizeInputs(model=ctx.store.put(directory, Model)), ctx).model
    return ctx.store.get(made)


@pytest.fixture(scope="module")
def servers(directory: Path, packed: Path) -> Iterator[list[subprocess.Popen]]:
    """Both models, their processes started side by side."""
    processes = [start(directory), start(packed)]
    try:
        yield processes
        for process in processes:
            os.kill(process.pid, signal.SIGTERM)
        assert [process.wait(timeout=20) for process in processes] == [0, 0]
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.fixture(scope="module")
def client(servers: list[subprocess.Popen]) -> openai.OpenAI:
    return client_of(servers[0])


def greedy_text(directory: Path, max_new_tokens: int) -> tuple[str, int, int]:
    engine = GlmEngine(directory)
    prompt_ids = engine.template.encode(HELLO)
    found = generate(engine.model, [prompt_ids], max_new_tokens=max_new_tokens, stop_ids=engine.stop_ids)[0]
    answer = [token for token in found.token_ids if token not in engine.stop_ids]
    return engine.decode(answer), len(prompt_ids), len(answer)


def test_a_chat_answer_is_the_greedy_text_of_generate(client: openai.OpenAI, directory: Path):
    text, num_prompt, num_answer = greedy_text(directory, 40)
    answer = client.chat.completions.create(model="tiny", messages=HELLO, temperature=0, max_tokens=40)
    assert answer.choices[0].message.content == text
    assert len(text) > 10
    assert (answer.usage.prompt_tokens, answer.usage.completion_tokens) == (num_prompt, num_answer)


@pytest.mark.parametrize("temperature", [0, 1.5])
def test_a_stream_says_what_the_whole_answer_says_at_the_same_seed(client: openai.OpenAI, temperature: float):
    settings: dict[str, Any] = {"temperature": temperature, "seed": 7, "max_tokens": 40, "stop": ["qq"]}
    whole = client.chat.completions.create(model="tiny", messages=HELLO, **settings)
    stream = client.chat.completions.create(
        model="tiny", messages=HELLO, stream=True, stream_options={"include_usage": True}, **settings
    )
    chunks = list(stream)
    text = "".join(chunk.choices[0].delta.content or "" for chunk in chunks if chunk.choices)
    assert text == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage
    assert [c.choices[0].finish_reason for c in chunks if c.choices][-1] == whole.choices[0].finish_reason


def test_completions_continue_a_text_whole_and_streamed(client: openai.OpenAI):
    settings: dict[str, Any] = {"temperature": 0, "max_tokens": 20}
    whole = client.completions.create(model="tiny", prompt="The quick", logprobs=0, **settings)
    pieces = client.completions.create(model="tiny", prompt="The quick", stream=True, **settings)
    assert "".join(piece.choices[0].text for piece in pieces) == whole.choices[0].text
    assert len(whole.choices[0].logprobs.token_logprobs) == whole.usage.completion_tokens
    assert all(value <= 0 for value in whole.choices[0].logprobs.token_logprobs)


def test_models_are_listed_and_found(client: openai.OpenAI):
    assert [model.id for model in client.models.list()] == ["tiny"]
    assert client.models.retrieve("tiny").id == "tiny"


def test_refusals_reach_the_client_as_its_own_errors(client: openai.OpenAI):
    with pytest.raises(openai.BadRequestError, match="n: want 1, got 2") as caught:
        client.chat.completions.create(model="tiny", messages=HELLO, n=2)
    assert caught.value.param == "n"
    with pytest.raises(openai.BadRequestError, match="want at most 256 tokens") as caught:
        client.completions.create(model="tiny", prompt="x y " * 300)
    assert caught.value.code == "context_length_exceeded"
    with pytest.raises(openai.NotFoundError, match="want 'tiny'"):
        client.chat.completions.create(model="gpt", messages=HELLO)


def test_a_quantized_model_is_served_alike(servers: list[subprocess.Popen], packed: Path):
    client = client_of(servers[1])
    answer = client.chat.completions.create(model="tiny", messages=HELLO, temperature=0, max_tokens=30)
    assert answer.choices[0].message.content == greedy_text(packed, 30)[0]
