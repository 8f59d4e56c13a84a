"""Laws of request bodies: what cannot be honoured is refused by name."""

import pytest
from pydantic import ValidationError

from infra.server.protocol import ChatTurn
from infra.server.requests import ChatMessage, ChatRequest, CompletionRequest

CHAT = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
TEXT = {"model": "m", "prompt": "hi"}


def field_of(model, body) -> str:
    with pytest.raises(ValidationError) as caught:
        model.model_validate(body)
    return ".".join(str(part) for part in caught.value.errors()[0]["loc"])


NEUTRAL = {
    "n": 1, "frequency_penalty": 0, "presence_penalty": 0.0, "logit_bias": {}, "top_logprobs": 0, "tools": [],
    "response_format": {"type": "text"}, "tool_choice": "none", "parallel_tool_calls": False, "functions": [],
    "modalities": ["text"], "store": False,
}  # fmt: skip
WRONG = {
    "n": 2, "frequency_penalty": 0.5, "presence_penalty": 1, "logit_bias": {"1": 1}, "top_logprobs": 3, "tools": [{}],
    "response_format": {"type": "json_object"}, "tool_choice": "auto", "parallel_tool_calls": True, "functions": [{}],
    "modalities": ["audio"], "store": True, "temperature": 2.1, "top_p": 0, "max_tokens": 0, "seed": 1.5,
    "max_completion_tokens": "5", "stop": [""], "messages": [], "unheard_of": 1,
}  # fmt: skip


@pytest.mark.parametrize(("name", "value"), NEUTRAL.items())
def test_a_parameter_that_changes_nothing_is_accepted(name: str, value):
    ChatRequest.model_validate(CHAT | {name: value})
    ChatRequest.model_validate(CHAT | {name: None})


@pytest.mark.parametrize(("name", "value"), WRONG.items())
def test_a_parameter_that_cannot_be_honoured_is_refused_by_name(name: str, value):
    assert field_of(ChatRequest, CHAT | {name: value}) == name


def test_the_refusal_says_what_to_do():
    with pytest.raises(ValidationError, match="want 1, got 3; one answer a request: send it again with another seed"):
        ChatRequest.model_validate(CHAT | {"n": 3})


def test_true_is_not_the_number_one():
    assert field_of(ChatRequest, CHAT | {"n": True}) == "n"


@pytest.mark.parametrize("prompt", ["hi", ["hi"], [1, 2], [[1, 2]]])
def test_one_prompt_may_be_text_or_token_ids(prompt):
    parsed = CompletionRequest.model_validate(TEXT | {"prompt": prompt}).prompt
    assert parsed in ("hi", (1, 2))


@pytest.mark.parametrize("prompt", [["a", "b"], [], [[1], [2]], [True], 3, None, [1.5]])
def test_several_prompts_or_none_are_refused(prompt):
    assert field_of(CompletionRequest, TEXT | {"prompt": prompt}).startswith("prompt")


@pytest.mark.parametrize(("stop", "strings"), [("x", ("x",)), (["x", "y"], ("x", "y")), (None, ())])
def test_stop_is_one_string_or_a_few(stop, strings):
    assert ChatRequest.model_validate(CHAT | {"stop": stop}).stop == strings


def test_text_parts_are_joined_and_other_parts_refused():
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert ChatMessage(role="user", content=parts).content == "ab"
    with pytest.raises(ValidationError, match="image_url"):
        ChatMessage(role="user", content=[{"type": "image_url", "image_url": {}}])


def test_roles_are_told_in_the_engines_words():
    turns = [ChatMessage(role=role, content="x").turn() for role in ("system", "developer", "user", "tool")]
    assert [turn.role for turn in turns] == ["system", "system", "user", "observation"]
    assert turns[2] == ChatTurn("user", "x")


def test_the_length_limit_has_two_names():
    assert ChatRequest.model_validate(CHAT | {"max_tokens": 3}).wanted_tokens == 3
    assert ChatRequest.model_validate(CHAT | {"max_tokens": 3, "max_completion_tokens": 2}).wanted_tokens == 2
