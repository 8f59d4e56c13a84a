import pytest
import torch

from models.scores import score
from tests.support.tiny_glm import tiny_reward_model

CONVERSATIONS = [[5, 6, 7], [8], [9, 10, 11, 12, 0], [13, 0]]


def test_a_score_does_not_depend_on_the_batch():
    model = tiny_reward_model()
    together = score(model, CONVERSATIONS, batch_size=3)
    alone = [score(model, [one], batch_size=1)[0] for one in CONVERSATIONS]
    assert together == pytest.approx(alone, abs=1e-5)
    assert alone[2] == pytest.approx(model(input_ids=torch.tensor([CONVERSATIONS[2]])).logits.item())
