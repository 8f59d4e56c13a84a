"""Laws of the reward benchmark."""

import math
from pathlib import Path

import pytest
import torch

from models.export import load_reward_model
from stages.answers import evenly
from stages.benchmarks.reward import MeanReward
from tests.support.tiny_release import tiny_subject, write_reward_model


def test_every_answer_is_scored_as_it_would_be_alone(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    subject.reward_model = load_reward_model(write_reward_model(tmp_path / "reward"))
    found = MeanReward(batch_size=5, temperature=0, max_items=8).measure(subject)
    alone = {}
    for one in subject.judged:
        turns = [*one.instruction.prompt, {"role": "assistant", "content": one.answer}]
        ids = subject.template.encode(turns, add_generation_prompt=False)
        with torch.inference_mode():
            alone[one.instruction.id] = float(subject.reward_model(input_ids=torch.tensor([ids])).logits[0, 0])
    wanted = {item.id: alone[item.id] for item in evenly(subject.items, 8)}
    assert found.items["reward"] == pytest.approx(wanted, abs=1e-5)
    assert found.metrics["eval/reward"] == pytest.approx(math.fsum(wanted.values()) / 8, abs=1e-5)
    assert found.metrics["eval/reward_stderr"] > 0


def test_samples_are_fixed_by_the_seed(tmp_path: Path):
    subject = tiny_subject(tmp_path)
    subject.reward_model = load_reward_model(write_reward_model(tmp_path / "reward"))
    first = MeanReward().measure(subject)
    assert MeanReward().measure(subject) == first
    assert MeanReward(seed=1).measure(subject) != first


def test_there_is_no_reward_without_a_reward_model(tmp_path: Path):
    assert MeanReward().measure(tiny_subject(tmp_path)).metrics == {}
