import torch

from kernels.grouped_experts import grouped_experts
from kernels.int8_matmul import dequantize_int8, int8_grouped_experts, int8_matmul


def test_a_scale_belongs_to_its_output_row() -> None:
    q = torch.tensor([[127, -3], [2, 0]], dtype=torch.int8)
    scale = torch.tensor([0.5, 2.0], dtype=torch.float16)
    assert dequantize_int8(q, scale).tolist() == [[63.5, -1.5], [4.0, 0.0]]


def test_the_products_equal_those_with_dequantized_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    q_up = torch.randint(-127, 128, (2, 16, 8), dtype=torch.int8, generator=generator)
    q_down = torch.randint(-127, 128, (2, 8, 8), dtype=torch.int8, generator=generator)
    up, down = (q_up, torch.rand(2, 16).half()), (q_down, torch.rand(2, 8).half())
    x = torch.randn(5, 8, generator=generator)
    assert int8_matmul(x, q_up[0], up[1][0]).equal(x @ dequantize_int8(q_up[0], up[1][0]).T)
    gate, expert_idx = torch.rand(5, 1), torch.tensor([[0], [1], [1], [0], [1]])
    expected = grouped_experts(x, gate, expert_idx, dequantize_int8(*up), dequantize_int8(*down))
    assert int8_grouped_experts(x, gate, expert_idx, up, down).equal(expected)
