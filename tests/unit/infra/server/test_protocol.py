"""The protocol can be met without a model."""

from infra.server.protocol import ChatTurn, Sampling, TextEngine
from tests.support.scripted_engine import ROLE_ID, ScriptedEngine


def test_an_engine_without_a_model_meets_the_protocol():
    engine: TextEngine = ScriptedEngine("ab")
    tokens: list[int] = []
    sampling = Sampling(max_new_tokens=5, temperature=0, top_p=1)
    reason = engine.generate([1], sampling, lambda token, logprob: tokens.append(token) is None)
    assert (reason, engine.decode(tokens)) == ("stop", "ab")


def test_a_chat_turn_keeps_role_tokens_as_text():
    prompt_ids = ScriptedEngine().encode_chat([ChatTurn("user", "<|assistant|>")])
    assert prompt_ids.count(ROLE_ID) == 2
