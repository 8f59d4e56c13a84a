"""Reward of the reward model: its score of the conversation with the answer, as in its training."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Literal

from pydantic import Field, PositiveInt

from stages.rewards.base import Answer, Reward, RewardTools

if TYPE_CHECKING:
    from models.tokenizer import Message


class RewardModelScore(Reward):
    """The score, less that of the instruction's own answer if `relative_to_answer` (ChatGLM-RLHF, section 3.3)."""

    kind: Literal["reward_model"] = "reward_model"
    relative_to_answer: bool = Field(default=True, description="subtract the score of the instruction's own answer")
    unfinished: float = Field(default=-1.0, description="added to the score of an answer that did not end")
    batch_size: PositiveInt = Field(default=64, description="conversations scored at a time")

    def rewards(self, answers: Sequence[Answer], tools: RewardTools) -> list[float]:
        """Scores; the answer is encoded again from its text, as the reward model saw answers."""
        from models.scores import score

        given = [_conversation(answer, answer.text, tools) for answer in answers]
        own = [_conversation(answer, answer.instruction.messages[-1].content, tools) for answer in answers]
        # several samples of one prompt share its own answer, and short answers repeat
        distinct = sorted({*given, *(own if self.relative_to_answer else ())})
        scores = score(tools.reward_model, distinct, batch_size=self.batch_size)
        score_of = dict(zip(distinct, scores, strict=True))
        found = [
            score_of[ids] if answer.ended else score_of[ids] + self.unfinished
            for ids, answer in zip(given, answers, strict=True)
        ]
        if self.relative_to_answer:
            found = [value - score_of[ids] for value, ids in zip(found, own, strict=True)]
        return found


def _conversation(answer: Answer, text: str, tools: RewardTools) -> tuple[int, ...]:
    turns: list[Message] = [*answer.instruction.prompt, {"role": "assistant", "content": text}]
    return tuple(tools.template.encode(turns, add_generation_prompt=False))
