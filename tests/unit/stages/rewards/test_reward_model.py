import pytest
import torch

from models.export import load_reward_model
from models.tokenizer import ChatTemplate, load_tokenizer
from stages.rewards.base import Answer, RewardTools
from stages.rewards.reward_model import RewardModelScore
from tests.support.tiny_release import instructions, write_reward_model


@pytest.fixture(scope="module")
def tools(tmp_path_factory):
    directory = write_reward_model(tmp_path_factory.mktemp("r") / "reward")
    return RewardTools(ChatTemplate(load_tokenizer(directory)), load_reward_model(directory))


def test_the_reward_is_the_score_of_the_whole_conversation_with_its_end(tools):
    (one,) = instructions(1, "x")
    ids = tools.template.encode([*one.prompt, {"role": "assistant", "content": "dog"}], add_generation_prompt=False)
    expected = tools.reward_model(input_ids=torch.tensor([ids])).logits.item()
    answers = [Answer(one, "dog", ended=True), Answer(one, "dog", ended=False)]
    assert RewardModelScore(relative_to_answer=False, unfinished=-0.5).rewards(answers, tools) == pytest.approx(
        [expected, expected - 0.5]
    )


def test_relative_to_the_instructions_own_answer_that_answer_is_worth_nothing(tools):
    items = instructions(3, "x")
    answers = [Answer(one, one.messages[-1].content, ended=True) for one in items]
    found = RewardModelScore(relative_to_answer=True).rewards(answers, tools)
    assert found == pytest.approx([0.0] * 3, abs=1e-6)
