"""Mean reward: the reward model's score of answers sampled to held-out prompts. Nothing without a reward model.

Answers are sampled, not greedy, because that is what PPO changes first; every model samples with the same seed.
"""

from typing import TYPE_CHECKING, Literal

from pydantic import Field

from stages.benchmarks.base import Benchmark, Measurement, mean_and_stderr
from stages.subject import Subject

if TYPE_CHECKING:
    from models.tokenizer import Message


class MeanReward(Benchmark):
    """Mean score with its standard error."""

    kind: Literal["reward"] = "reward"
    max_items: int = Field(default=200, ge=1, description="prompts, as evenly over tasks and languages as they allow")
    temperature: float = Field(default=1.0, ge=0, description="sampling temperature; 0 = greedy")
    seed: int = Field(default=0, ge=0, description="seed of the samples, the same for every model")
    batch_size: int = Field(default=64, ge=1, description="answers sampled and scored at once")

    def measure(self, subject: Subject) -> Measurement:
        """Sample an answer to every prompt and score the conversation."""
        import torch

        from models.generate import generate
        from stages.answers import evenly

        if subject.reward_model is None:
            return Measurement({})
        items = evenly(subject.items, self.max_items)
        generator = torch.Generator().manual_seed(self.seed)
        conversations = []
        for start in range(0, len(items), self.batch_size):
            batch = items[start : start + self.batch_size]
            generations = generate(
                subject.model,
                [subject.template.encode(item.prompt) for item in batch],
                max_new_tokens=subject.max_new_tokens,
                stop_ids=subject.template.stop_ids,
                temperature=self.temperature,
                generator=generator,
            )
            for item, generation in zip(batch, generations, strict=True):
                answer = subject.template.parse(generation.token_ids)
                turn: Message = {"role": "assistant", "content": answer}
                conversations.append(subject.template.encode([*item.prompt, turn], add_generation_prompt=False))
            subject.progress(len(conversations), len(items), "samples")
        scores = self._scores(subject, conversations)
        mean, stderr = mean_and_stderr(scores)
        metrics = {"eval/reward": mean, "eval/reward_stderr": stderr}
        return Measurement(metrics, {"reward": {item.id: value for item, value in zip(items, scores, strict=True)}})

    def _scores(self, subject: Subject, sequences: list[list[int]]) -> list[float]:
        import torch

        assert subject.reward_model is not None
        by_length = sorted(range(len(sequences)), key=lambda index: (len(sequences[index]), index))
        found: dict[int, float] = {}
        for start in range(0, len(by_length), self.batch_size):
            batch = by_length[start : start + self.batch_size]
            length = len(sequences[batch[-1]])
            rows = [sequences[index] + [0] * (length - len(sequences[index])) for index in batch]
            is_real = [[place < len(sequences[index]) for place in range(length)] for index in batch]
            with torch.inference_mode():
                output = subject.reward_model(input_ids=torch.tensor(rows), attention_mask=torch.tensor(is_real))
            found |= dict(zip(batch, output.logits[:, 0].tolist(), strict=True))
        return [found[index] for index in range(len(sequences))]
