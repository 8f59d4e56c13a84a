"""What a reward is: a frozen config that gives every answer a number, higher is better."""

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pydantic import Field

from stages.plugins import Plugin
from stages.records import Instruction

if TYPE_CHECKING:
    from models.tokenizer import ChatTemplate


@dataclass(frozen=True)
class Answer:
    """What a policy said to an instruction's prompt."""

    instruction: Instruction
    text: str
    ended: bool  # by a stop token, not by the limit


@dataclass(frozen=True)
class RewardTools:
    """What rewards may use."""

    template: "ChatTemplate"
    reward_model: Any  # GlmForSequenceClassification


class Reward(Plugin):
    """Base of every reward."""

    weight: float = Field(default=1.0, description="factor on this reward in the sum of all")

    @abstractmethod
    def rewards(self, answers: Sequence[Answer], tools: RewardTools) -> list[float]:
        """One number an answer, without `weight`; the same answers give the same numbers."""
