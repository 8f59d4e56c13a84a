import pytest
import torch

from models.preference_training import on_backbone_of, pair_loss, pair_row
from models.tokenizer import ChatTemplate, load_tokenizer
from tests.support.tiny_glm import tiny_glm
from tests.support.tiny_release import write_tokenizer


@pytest.mark.parametrize(("centring", "expected"), [(0.0, 0.201413), (0.01, 0.213913)])
def test_the_pair_loss_equals_the_golden_vector(centring, expected):
    loss = pair_loss(torch.tensor([1.0]), torch.tensor([-0.5]), centring=centring)
    torch.testing.assert_close(loss, torch.tensor(expected), atol=1e-6, rtol=0)


def test_the_backbone_is_the_language_models_and_the_head_depends_on_the_seed():
    policy = tiny_glm()
    first, again, other = (on_backbone_of(policy, seed=seed) for seed in (0, 0, 1))
    assert all(torch.equal(value, first.model.state_dict()[name]) for name, value in policy.model.state_dict().items())
    assert torch.equal(first.score.weight, again.score.weight)
    assert not torch.equal(first.score.weight, other.score.weight)
    assert first.config.num_labels == 1


def test_both_conversations_of_a_pair_end_with_the_end_token(tmp_path):
    template = ChatTemplate(load_tokenizer(write_tokenizer(tmp_path / "tokenizer")))
    row = pair_row(template, [{"role": "user", "content": "q"}], "good", "bad")
    prompt = template.encode([{"role": "user", "content": "q"}])
    for name, answer in (("chosen_ids", "good"), ("rejected_ids", "bad")):
        assert row[name] == [*prompt, *template.encode_text(answer), template.end_id]
