import math

import pytest
import torch

from models.balance import load_statistics, sequence_balance_loss, switch_balance_loss, update_bias


def test_perfect_balance_costs_one_and_collapse_costs_experts_over_top_k() -> None:
    # 4 experts, top-2, every expert chosen equally often, equal scores
    scores = torch.full((1, 4, 4), 0.5)
    balanced = torch.tensor([[[0, 1], [2, 3], [0, 1], [2, 3]]])
    assert float(sequence_balance_loss(scores, balanced)) == pytest.approx(1.0)
    collapsed_scores = torch.tensor([0.5, 0.5, 0.0, 0.0]).expand(1, 4, 4)
    collapsed = torch.tensor([0, 1]).expand(1, 4, 2)
    assert float(sequence_balance_loss(collapsed_scores, collapsed)) == pytest.approx(2.0)


def test_padding_and_empty_sequences_do_not_change_the_loss() -> None:
    torch.manual_seed(0)
    scores, expert_idx = torch.rand(2, 6, 8), torch.randint(0, 8, (2, 6, 2))
    expected = sequence_balance_loss(scores, expert_idx)
    padded_scores = torch.cat((scores, torch.rand(2, 3, 8)), dim=1)
    padded_idx = torch.cat((expert_idx, torch.zeros(2, 3, 2, dtype=torch.long)), dim=1)
    is_real = torch.arange(9).expand(2, 9) < 6
    torch.testing.assert_close(sequence_balance_loss(padded_scores, padded_idx, is_real), expected)
    with_empty = sequence_balance_loss(
        torch.cat((padded_scores, torch.rand(1, 9, 8))),
        torch.cat((padded_idx, torch.zeros(1, 9, 2, dtype=torch.long))),
        torch.cat((is_real, torch.zeros(1, 9, dtype=torch.bool))),
    )
    torch.testing.assert_close(with_empty, expected)


def test_the_loss_pushes_the_overloaded_expert_down() -> None:
    scores = torch.full((1, 4, 4), 0.5, requires_grad=True)
    expert_idx = torch.tensor([[[0, 1], [0, 2], [0, 3], [0, 1]]])
    sequence_balance_loss(scores, expert_idx).backward()
    assert scores.grad is not None
    assert scores.grad[..., 0].min() > 0 > scores.grad[..., 2].max()


def test_the_switch_loss_of_a_collapsed_router_is_literal() -> None:
    probs = torch.tensor([0.97, 0.01, 0.01, 0.01]).expand(5, 4)
    assert float(switch_balance_loss(probs, torch.zeros(5, 1, dtype=torch.long))) == pytest.approx(3.88)
    uniform = torch.full((4, 4), 0.25)
    assert float(switch_balance_loss(uniform, torch.arange(4)[:, None])) == pytest.approx(1.0)


def test_the_bias_of_overloaded_experts_falls_by_the_rate_and_of_the_others_rises() -> None:
    bias = torch.zeros(3)
    update_bias(bias, torch.tensor([9, 2, 1]), 0.001)
    assert bias.tolist() == pytest.approx([-0.001, 0.001, 0.001])
    update_bias(bias, torch.tensor([4, 4, 4]), 0.001)
    assert bias.tolist() == pytest.approx([-0.001, 0.001, 0.001])


def test_load_statistics_have_their_closed_forms_at_balance_and_at_collapse() -> None:
    balanced = load_statistics(torch.tensor([5, 5, 5, 5]))
    assert balanced == pytest.approx({"max_violation": 0, "cv": 0, "entropy_ratio": 1, "dead_experts": 0})
    collapsed = load_statistics(torch.tensor([20, 0, 0, 0]))
    assert collapsed == pytest.approx({"max_violation": 3, "cv": math.sqrt(3), "entropy_ratio": 0, "dead_experts": 3})
    with pytest.raises(ValueError, match="counts: want at least one routed token"):
        load_statistics(torch.zeros(4))
