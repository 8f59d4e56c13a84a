import pytest
import torch
from torch.nn import functional

from kernels.grouped_experts import grouped_experts

NUM_EXPERTS, MODEL_DIM, FFN_DIM, TOP_K = 4, 16, 8, 2


def _arguments(num_tokens: int, experts: list[int], dtype: torch.dtype = torch.float32) -> list[torch.Tensor]:
    torch.manual_seed(num_tokens)
    x = torch.randn(num_tokens, MODEL_DIM, dtype=dtype, requires_grad=True)
    gate = torch.rand(num_tokens, TOP_K, dtype=dtype, requires_grad=True)
    choices = torch.tensor(experts)
    expert_idx = torch.stack([choices[torch.randperm(len(experts))[:TOP_K]] for _ in range(num_tokens)])
    gate_up = torch.randn(NUM_EXPERTS, 2 * FFN_DIM, MODEL_DIM, dtype=dtype, requires_grad=True)
    down = torch.randn(NUM_EXPERTS, MODEL_DIM, FFN_DIM, dtype=dtype, requires_grad=True)
    return [x, gate, expert_idx, gate_up, down]


def _token_by_token(
    x: torch.Tensor, gate: torch.Tensor, expert_idx: torch.Tensor, gate_up: torch.Tensor, down: torch.Tensor
) -> torch.Tensor:
    rows = []
    for token in range(x.shape[0]):
        row = torch.zeros_like(x[token])
        for k in range(TOP_K):
            expert = int(expert_idx[token, k])
            gated, up = (gate_up[expert] @ x[token]).chunk(2)
            row = row + gate[token, k] * (down[expert] @ (functional.silu(gated) * up))
        rows.append(row)
    return torch.stack(rows)


def _results(function: object, arguments: list[torch.Tensor]) -> list[torch.Tensor]:
    y = function(*arguments)  # type: ignore[operator]
    differentiable = [argument for argument in arguments if argument.requires_grad]
    weights = torch.linspace(-1, 1, y.numel()).view_as(y).to(y.dtype)
    return [y.detach(), *torch.autograd.grad((y * weights).sum(), differentiable)]


@pytest.mark.parametrize("num_tokens", [1, 37])
@pytest.mark.parametrize("experts", [[0, 1, 2, 3], [1, 3]], ids=["all experts", "two experts stay empty"])
def test_output_and_gradients_equal_the_token_by_token_sum(num_tokens: int, experts: list[int]) -> None:
    arguments = _arguments(num_tokens, experts)
    for ours, expected in zip(_results(grouped_experts, arguments), _results(_token_by_token, arguments), strict=True):
        torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-4)


def test_an_expert_without_tokens_gets_exactly_zero_gradients() -> None:
    *_, gate_up_grad, down_grad = _results(grouped_experts, _arguments(20, [1, 3]))
    assert not gate_up_grad[[0, 2]].any() and not down_grad[[0, 2]].any()
    assert gate_up_grad[[1, 3]].any() and down_grad[[1, 3]].any()


def test_a_second_run_is_bitwise_equal() -> None:
    arguments = _arguments(300, [0, 1, 2])
    for first, second in zip(_results(grouped_experts, arguments), _results(grouped_experts, arguments), strict=True):
        assert first.equal(second)
