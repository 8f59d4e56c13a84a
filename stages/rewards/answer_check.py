"""Reward of the instruction's own check: precise but narrow, so it guards a reward model against being gamed."""

from collections.abc import Sequence
from typing import Literal

from pydantic import Field

from stages.answers import is_correct
from stages.rewards.base import Answer, Reward, RewardTools


class AnswerCheck(Reward):
    """A fixed number for a right answer, another for a wrong one."""

    kind: Literal["answer_check"] = "answer_check"
    right: float = Field(default=1.0, description="reward of a right answer that ended")
    wrong: float = Field(default=0.0, description="reward of any other answer")

    def rewards(self, answers: Sequence[Answer], tools: RewardTools) -> list[float]:
        """Right only if the answer ended: a model that rambles past the right answer is not right."""
        return [
            self.right if answer.ended and is_correct(answer.instruction.check, answer.text) else self.wrong
            for answer in answers
        ]
