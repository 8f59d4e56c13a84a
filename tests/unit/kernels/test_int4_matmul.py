import pytest
import torch

from kernels.grouped_experts import grouped_experts
from kernels.int4_matmul import dequantize_int4, int4_grouped_experts, int4_matmul, pack_int4, unpack_int4

GOLDEN_BYTES = [((1, -2), 0x1E), ((-7, 7), 0x97), ((0, -1), 0x0F), ((7, -7), 0x79), ((-1, 0), 0xF0)]


@pytest.mark.parametrize(("pair", "byte"), GOLDEN_BYTES)
def test_the_even_column_sits_in_the_high_nibble(pair: tuple[int, int], byte: int) -> None:
    assert int(pack_int4(torch.tensor([pair], dtype=torch.int8))[0, 0]) & 0xFF == byte


def test_every_pair_of_values_survives_the_round_trip_in_a_stack() -> None:
    values = torch.arange(-8, 8, dtype=torch.int8)
    pairs = torch.cartesian_prod(values, values).view(4, 8, 16)
    assert pack_int4(pairs).shape == (4, 8, 8)
    assert unpack_int4(pack_int4(pairs)).equal(pairs)


def test_values_and_shapes_that_cannot_be_packed_are_refused() -> None:
    with pytest.raises(ValueError, match="want int8 with an even number of columns"):
        pack_int4(torch.zeros(2, 3, dtype=torch.int8))
    with pytest.raises(ValueError, match=r"want values in -8\.\.7, got 0\.\.8"):
        pack_int4(torch.tensor([[0, 8]], dtype=torch.int8))
    with pytest.raises(ValueError, match="packed: want int8"):
        unpack_int4(torch.zeros(2, 2))


@pytest.mark.parametrize("num_columns", [16, 12], ids=["whole groups", "shorter last group"])
def test_a_scale_belongs_to_its_group_of_columns(num_columns: int) -> None:
    q = torch.randint(-7, 8, (3, num_columns), dtype=torch.int8, generator=torch.Generator().manual_seed(0))
    scale = torch.tensor([[0.5, 2.0], [1.0, 4.0], [0.25, 8.0]], dtype=torch.float16)
    expected = q.float() * torch.stack([scale[:, column // 8] for column in range(num_columns)], dim=1).float()
    assert dequantize_int4(pack_int4(q), scale, 8).equal(expected)


def test_the_products_equal_those_with_dequantized_weights() -> None:
    generator = torch.Generator().manual_seed(0)
    q_up = pack_int4(torch.randint(-7, 8, (2, 16, 8), dtype=torch.int8, generator=generator))
    q_down = pack_int4(torch.randint(-7, 8, (2, 8, 8), dtype=torch.int8, generator=generator))
    up, down = (q_up, torch.rand(2, 16, 2).half()), (q_down, torch.rand(2, 8, 2).half())
    x = torch.randn(5, 8, generator=generator)
    assert int4_matmul(x, up[0][0], up[1][0], 4).equal(x @ dequantize_int4(up[0][0], up[1][0], 4).T)
    gate, expert_idx = torch.rand(5, 1), torch.tensor([[0], [1], [1], [0], [1]])
    expected = grouped_experts(x, gate, expert_idx, dequantize_int4(*up, 4), dequantize_int4(*down, 4))
    assert int4_grouped_experts(x, gate, expert_idx, up, down, 4).equal(expected)
