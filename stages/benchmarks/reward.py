"""Mean reward: the reward model's score of the greedy answers to held-out prompts. Nothing without a reward model."""

from typing import Literal

from pydantic import Field

from stages.benchmarks.base import Benchmark, Measurement, mean_and_stderr
from stages.subject import Subject


class MeanReward(Benchmark):
    """Mean score with its standard error."""

    kind: Literal["reward"] = "reward"
    batch_size: int = Field(default=32, ge=1, description="answers in one forward pass")

    def measure(self, subject: Subject) -> Measurement:
        """Score every answer in its conversation."""
        if subject.reward_model is None:
            return Measurement({})
        sequences = [
            subject.template.encode(
                [*one.instruction.prompt, {"role": "assistant", "content": one.answer}], add_generation_prompt=False
            )
            for one in subject.judged
        ]
        scores = self._scores(subject, sequences)
        mean, stderr = mean_and_stderr(scores)
        ids = [one.instruction.id for one in subject.judged]
        metrics = {"eval/reward": mean, "eval/reward_stderr": stderr}
        return Measurement(metrics, {"reward": dict(zip(ids, scores, strict=True))})

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
            subject.progress(start + len(batch), len(by_length), "scores")
        return [found[index] for index in range(len(sequences))]
