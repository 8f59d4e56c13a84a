"""The bodies of `/v1/chat/completions` and `/v1/completions`.

Parameters of OpenAI's API that this server cannot honour are accepted only with the value that changes nothing; any
other value is refused by name, so that no setting is ignored silently.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from infra.server.protocol import ChatTurn

MAX_TEXT_CHARS = 1_000_000
_MAX_STOP_STRINGS = 4
_MAX_STOP_CHARS = 256


def _shown(value: Any) -> str:
    return repr(value)[:60]


def _only(neutral: Any, advice: str) -> BeforeValidator:
    """A parameter that has one accepted value besides null."""

    def check(value: Any) -> Any:
        if value is None or (value == neutral and type(value) is not bool) or value is neutral:
            return value
        raise ValueError(f"want {neutral!r}, got {_shown(value)}; {advice}")

    return BeforeValidator(check)


def _encodable(value: Any) -> Any:
    """JSON can spell half of a surrogate pair, which is no text."""
    if isinstance(value, str):
        try:
            value.encode()
        except UnicodeEncodeError as error:
            raise ValueError(f"want Unicode text, got half a surrogate pair at character {error.start}") from error
    return value


def _joined_text(content: Any) -> Any:
    """Content is text, or a list of text parts."""
    if not isinstance(content, list):
        return _encodable(content)
    texts = []
    for part in content:
        if not (isinstance(part, dict) and part.get("type") == "text" and isinstance(part.get("text"), str)):
            raise ValueError(f"want text or a list of {{'type': 'text', 'text': ...}} parts, got {_shown(part)}")
        texts.append(part["text"])
    return _encodable("".join(texts))


def _stop_strings(value: Any) -> tuple[str, ...]:
    strings = [value] if isinstance(value, str) else ([] if value is None else value)
    is_valid = isinstance(strings, list | tuple) and all(isinstance(s, str) and s for s in strings)
    if not is_valid or len(strings) > _MAX_STOP_STRINGS or any(len(s) > _MAX_STOP_CHARS for s in strings):
        raise ValueError(
            f"want up to {_MAX_STOP_STRINGS} strings of 1 to {_MAX_STOP_CHARS} characters, got {_shown(value)}"
        )
    return tuple(strings)


def _one_prompt(value: Any) -> Any:
    """Text, token ids, or a list with one of them."""
    if isinstance(value, list) and len(value) == 1 and isinstance(value[0], str | list):
        value = value[0]
    if isinstance(value, str):
        return _encodable(value)
    if isinstance(value, list) and value and all(type(item) is int for item in value):
        return tuple(value)
    raise ValueError(f"want one text or one list of token ids, got {_shown(value)}; send one request for each prompt")


class StreamOptions(BaseModel):
    """What a stream holds besides the text."""

    model_config = ConfigDict(extra="forbid")
    include_usage: bool = False
    include_obfuscation: Annotated[bool | None, _only(False, "this server adds no padding")] = None


class ChatMessage(BaseModel):
    """One message of a conversation."""

    model_config = ConfigDict(extra="forbid")
    role: Literal["system", "developer", "user", "assistant", "tool"]
    content: Annotated[str, BeforeValidator(_joined_text), Field(max_length=MAX_TEXT_CHARS)]
    name: Annotated[str | None, _only(None, "the chat format has no names")] = None
    refusal: Annotated[str | None, _only(None, "the chat format has no refusals")] = None
    tool_call_id: str | None = None

    def turn(self) -> ChatTurn:
        """The message in the engine's words."""
        if self.role == "developer":
            return ChatTurn("system", self.content)
        return ChatTurn("observation" if self.role == "tool" else self.role, self.content)


class SamplingRequest(BaseModel):
    """What both kinds of request share."""

    model_config = ConfigDict(extra="forbid")
    model: str
    max_tokens: Annotated[int | None, Field(strict=True, ge=1)] = None
    temperature: Annotated[float | None, Field(strict=True, ge=0, le=2, allow_inf_nan=False)] = None
    top_p: Annotated[float | None, Field(strict=True, gt=0, le=1, allow_inf_nan=False)] = None
    seed: Annotated[int | None, Field(strict=True, ge=-(2**63), lt=2**63)] = None
    stop: Annotated[tuple[str, ...], BeforeValidator(_stop_strings)] = ()
    stream: bool | None = False
    stream_options: StreamOptions | None = None
    user: str | None = None  # a label for the caller's own records; has no effect by definition
    n: Annotated[int | None, _only(1, "one answer a request: send it again with another seed")] = None
    frequency_penalty: Annotated[float | None, _only(0, "not offered")] = None
    presence_penalty: Annotated[float | None, _only(0, "not offered")] = None
    logit_bias: Annotated[dict[str, float] | None, _only({}, "not offered")] = None

    @property
    def includes_usage(self) -> bool:
        """Whether a stream ends with the token counts."""
        return self.stream_options is not None and self.stream_options.include_usage


class ChatRequest(SamplingRequest):
    """Body of POST /v1/chat/completions."""

    messages: Annotated[list[ChatMessage], Field(min_length=1)]
    max_completion_tokens: Annotated[int | None, Field(strict=True, ge=1)] = None
    logprobs: bool | None = False
    top_logprobs: Annotated[int | None, _only(0, "only the chosen token's log-probability is given")] = None
    response_format: Annotated[dict[str, Any] | None, _only({"type": "text"}, "only text is offered")] = None
    tools: Annotated[list[Any] | None, _only([], "tools are not offered")] = None
    tool_choice: Annotated[str | None, _only("none", "tools are not offered")] = None
    parallel_tool_calls: Annotated[bool | None, _only(False, "tools are not offered")] = None
    functions: Annotated[list[Any] | None, _only([], "functions are not offered")] = None
    modalities: Annotated[list[str] | None, _only(["text"], "only text is offered")] = None
    store: Annotated[bool | None, _only(False, "nothing is stored")] = None

    @property
    def wanted_tokens(self) -> int | None:
        """The length limit under either of its two names."""
        return self.max_completion_tokens if self.max_completion_tokens is not None else self.max_tokens


class CompletionRequest(SamplingRequest):
    """Body of POST /v1/completions."""

    prompt: Annotated[str | tuple[int, ...], BeforeValidator(_one_prompt)]
    logprobs: Annotated[int | None, _only(0, "only the chosen token's log-probability is given")] = None
    best_of: Annotated[int | None, _only(1, "one answer a request")] = None
    echo: Annotated[bool | None, _only(False, "the answer never repeats the prompt")] = None
    suffix: Annotated[str | None, _only(None, "text after the gap is not offered")] = None
