import math

import torch

from models.rope import rotate, rotations


def _turned(x: torch.Tensor, positions: list[int], block_positions: list[int], base: float = 100.0) -> torch.Tensor:
    turns = rotations(torch.tensor([positions]), torch.tensor([block_positions]), head_dim=x.shape[-1], base=base)
    return rotate(x, turns)


def test_pair_i_of_each_half_turns_by_its_position_times_its_frequency() -> None:
    # head dim 8: two pairs a half, frequencies 1 and 100 ** (-2 / 4) = 0.1
    x = torch.tensor([1.0, 0.0] * 4).view(1, 1, 1, 8)
    angles = [3 * 1.0, 3 * 0.1, 5 * 1.0, 5 * 0.1]
    expected = torch.tensor([f(angle) for angle in angles for f in (math.cos, math.sin)])
    torch.testing.assert_close(_turned(x, [3], [5]).flatten(), expected)


def test_without_block_positions_the_second_half_stands_still() -> None:
    x = torch.randn(1, 4, 2, 8)
    turned = _turned(x, [0, 1, 2, 3], [0, 0, 0, 0])
    assert turned[..., 4:].equal(x[..., 4:])
    assert turned[:, 0].equal(x[:, 0])


def test_scores_depend_on_differences_of_both_positions_only() -> None:
    torch.manual_seed(0)
    q, k = torch.randn(1, 1, 1, 8), torch.randn(1, 1, 1, 8)
    score = (_turned(q, [7], [4]) * _turned(k, [2], [1])).sum()
    shifted = (_turned(q, [17], [24]) * _turned(k, [12], [21])).sum()
    torch.testing.assert_close(score, shifted)
    other_block = (_turned(q, [17], [25]) * _turned(k, [12], [21])).sum()
    assert not torch.isclose(score, other_block)


def test_turning_keeps_the_length_of_every_pair() -> None:
    x = torch.randn(2, 3, 2, 8)
    turned = _turned(x, [5, 6, 7], [1, 2, 3])
    torch.testing.assert_close(turned.view(2, 3, 2, 4, 2).norm(dim=-1), x.view(2, 3, 2, 4, 2).norm(dim=-1))
