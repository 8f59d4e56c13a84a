"""Reward of the reward model: its score of the conversation with the answer, as in its training."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field, PositiveInt

from stages.rewards.base import Answer, Reward, RewardTools


class RewardModelScore(Reward):
    """The score, less that of the instruction's own answer if `relative_to_answer` (ChatGLM-RLHF, section 3.3)."""

    kind: Literal["reward_model"] = "reward_model"
    relative_to_answer: bool = Field(default=False, description="subtract the score of the instruction's own answer")
    unfinished: float = Field(default=-1.0, description="added to the score of an answer that did not end")
    batch_size: PositiveInt = Field(default=64, description="conversations scored at a time")

    def rewards(self, answers: Sequence[Answer], tools: RewardTools) -> list[float]:
        """Scores; the answer is encoded again from its text, as the reward model saw answers."""
        found = self._scores([(answer, answer.text) for answer in answers], tools)
        if self.relative_to_answer:
            baselines = self._scores([(a, a.instruction.messages[-1].content) for a in answers], tools)
            found = [score - baseline for score, baseline in zip(found, baselines, strict=True)]
        return [
            score if answer.ended else score + self.unfinished for score, answer in zip(found, answers, strict=True)
        ]

    def _scores(self, texts: Sequence[tuple[Answer, str]], tools: RewardTools) -> list[float]:
        from models.scores import score

        conversations = [
            tools.template.encode(
                [*answer.instruction.prompt, {"role": "assistant", "content": text}], add_generation_prompt=False
            )
            for answer, text in texts
        ]
        return score(tools.reward_model, conversations, batch_size=self.batch_size)
