import pytest
import torch

from models.moe import MoeFfn, Router, route
from tests.support.tiny_glm import tiny_config


def test_the_group_limited_choice_and_the_scaled_gates_are_literal() -> None:
    scores = torch.tensor([0.9, 0.1, 0.2, 0.3, 0.8, 0.7, 0.05, 0.6])
    bias = torch.tensor([-0.5, 0, 0, 0, 0, 0, 0, 0])
    gate, expert_idx = route(scores, bias, top_k=2, num_groups=4, top_groups=2, routed_scaling_factor=2.5)
    assert expert_idx.tolist() == [4, 5]
    assert gate.tolist() == pytest.approx([1.3333, 1.1667], abs=1e-4)


def test_the_bias_decides_who_is_chosen_but_not_the_gates() -> None:
    scores = torch.tensor([[0.9, 0.5, 0.4, 0.1]])
    gate, expert_idx = route(scores, torch.tensor([-10.0, 0, 0, 0]), top_k=2)
    assert expert_idx.tolist() == [[1, 2]]
    assert gate[0].tolist() == pytest.approx([0.5 / 0.9, 0.4 / 0.9])


def test_a_group_that_is_not_chosen_stays_out_even_when_every_biased_score_is_negative() -> None:
    scores = torch.full((4,), 0.5)
    _, expert_idx = route(scores, torch.tensor([-1.0, -1.1, -2.0, -2.1]), top_k=2, num_groups=2, top_groups=1)
    assert sorted(expert_idx.tolist()) == [0, 1]


def test_gradients_reach_the_scores_through_the_gates_and_never_the_bias() -> None:
    scores = torch.tensor([0.9, 0.5, 0.4], requires_grad=True)
    bias = torch.zeros(3, requires_grad=True)
    gate, _ = route(scores, bias, top_k=2)
    gate[0].backward()
    assert scores.grad is not None and scores.grad[:2].abs().min() > 0 and scores.grad[2] == 0
    assert bias.grad is None


def test_the_router_computes_in_fp32_whatever_the_activations_are() -> None:
    torch.manual_seed(0)
    router = Router(tiny_config())
    torch.nn.init.normal_(router.weight)
    x = torch.randn(1, 5, 32).bfloat16()
    scores, _, _ = router(x)
    assert scores.dtype == torch.float32
    torch.testing.assert_close(scores, (x.float() @ router.weight.T).sigmoid())


def test_padding_is_not_counted_as_load() -> None:
    torch.manual_seed(0)
    ffn = MoeFfn(tiny_config())
    for parameter in ffn.parameters():
        torch.nn.init.normal_(parameter)
    x = torch.randn(2, 5, 32)
    is_real = torch.tensor([[1, 1, 1, 0, 0], [1, 1, 1, 1, 1]], dtype=torch.bool)
    _, state = ffn(x, is_real)
    assert int(state.counts_E.sum()) == 8 * 2
    _, state = ffn(x, None)
    assert int(state.counts_E.sum()) == 10 * 2


def test_the_shared_expert_is_added_to_every_token() -> None:
    torch.manual_seed(0)
    ffn = MoeFfn(tiny_config())
    for parameter in ffn.parameters():
        torch.nn.init.normal_(parameter, std=0.2)
    x = torch.randn(1, 4, 32)
    with_shared, _ = ffn(x, None)
    shared = ffn.shared_expert
    assert shared is not None
    ffn.shared_expert = None
    without, _ = ffn(x, None)
    torch.testing.assert_close(with_shared, without + shared(x))
