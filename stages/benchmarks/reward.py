"""Mean reward: the reward model's score of answers sampled to held-out prompts. Nothing without a reward model.

Answers are sampled, not greedy, because that is what PPO changes first; every model samples an item's answer with the
same random numbers.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from stages.benchmarks.base import Benchmark, Measurement
from stages.means import mean_and_stderr
from stages.subject import Subject

if TYPE_CHECKING:
    from models.tokenizer import Message


class MeanReward(Benchmark):
    """Mean score with its standard error."""

    kind: Literal["reward"] = "reward"
    max_items: int = Field(default=600, ge=1, description="prompts, as evenly over tasks and languages as they allow")
    temperature: float = Field(default=1.0, ge=0, description="sampling temperature; 0 = greedy")
    seed: int = Field(default=0, ge=0, description="seed of the samples, the same for every model")
    batch_size: int = Field(default=64, ge=1, description="answers sampled and scored at once")

    def measure(self, subject: Subject) -> Measurement:
        """Sample an answer to every prompt and score the conversation."""
        from models.rollout import generators, sample_answers
        from models.scores import score
        from stages.answers import evenly

        if subject.reward_model is None:
            return Measurement({})
        items = evenly(subject.items, self.max_items)
        generations = sample_answers(
            subject.model,
            [subject.template.encode(item.prompt) for item in items],
            max_new_tokens=subject.max_new_tokens,
            stop_ids=subject.template.stop_ids,
            temperature=self.temperature,
            generator=generators(self.seed, len(items)),
            batch_size=self.batch_size,
        )
        conversations = []
        for item, generation in zip(items, generations, strict=True):
            turn: Message = {"role": "assistant", "content": subject.template.parse(generation.token_ids)}
            conversations.append(subject.template.encode([*item.prompt, turn], add_generation_prompt=False))
        scores = score(subject.reward_model, conversations, batch_size=self.batch_size)
        mean, stderr = mean_and_stderr(scores)
        metrics = {"eval/reward": mean, "eval/reward_stderr": stderr}
        return Measurement(metrics, {"reward": {item.id: value for item, value in zip(items, scores, strict=True)}})
