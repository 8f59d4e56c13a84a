import torch

from models.attention import Attention, attend_bias
from models.infilling import attend_mask
from models.rope import rotations
from tests.support.tiny_glm import tiny_config


def _may_attend(
    is_real: list[list[int]] | None, context_length: list[int] | None, *, num_queries: int, num_keys: int
) -> torch.Tensor | None:
    bias = attend_bias(
        None if is_real is None else torch.tensor(is_real, dtype=torch.bool),
        None if context_length is None else torch.tensor(context_length),
        num_queries=num_queries,
        num_keys=num_keys,
        like=torch.zeros(()),
    )
    return None if bias is None else bias[:, 0] == 0


def test_the_prefix_mask_of_every_sample_is_its_attend_mask() -> None:
    allowed = _may_attend(None, [2, 5], num_queries=6, num_keys=6)
    assert allowed is not None
    assert allowed[0].equal(attend_mask(2, 6)) and allowed[1].equal(attend_mask(5, 6))


def test_left_padding_shifts_the_prefix_and_hides_the_padding() -> None:
    allowed = _may_attend([[0, 0, 1, 1, 1, 1]], [2], num_queries=6, num_keys=6)
    assert allowed is not None
    assert allowed[0, 2:, 2:].equal(attend_mask(2, 4))
    assert not allowed[0, 2:, :2].any()


def test_every_query_even_padding_attends_to_itself_so_that_nothing_is_undefined() -> None:
    allowed = _may_attend([[0, 0, 1, 1]], None, num_queries=4, num_keys=4)
    assert allowed is not None
    assert allowed[0].diagonal().all()


def test_no_mask_is_made_where_the_causal_order_says_it_all() -> None:
    assert _may_attend(None, None, num_queries=5, num_keys=5) is None
    assert _may_attend([[1, 1, 1, 0, 0]], None, num_queries=5, num_keys=5) is None
    assert _may_attend([[1] * 5], None, num_queries=1, num_keys=5) is None


def test_queries_after_a_cache_see_the_cache_and_their_own_past() -> None:
    allowed = _may_attend([[0, 1, 1, 1, 1]], None, num_queries=2, num_keys=5)
    assert allowed is not None
    assert allowed[0].int().tolist() == [[0, 1, 1, 1, 0], [0, 1, 1, 1, 1]]


def test_grouped_heads_share_their_keys_and_values() -> None:
    torch.manual_seed(0)
    grouped = Attention(tiny_config(), 0)
    full = Attention(tiny_config(num_key_value_heads=4), 0)
    q, k, v = grouped.qkv_proj.weight.view(8, 8, 32).split([4, 2, 2])
    repeated = torch.cat((q, k.repeat_interleave(2, 0), v.repeat_interleave(2, 0))).flatten(0, 1)
    full.qkv_proj.weight.data.copy_(repeated)
    full.o_proj.weight.data.copy_(grouped.o_proj.weight)
    positions = torch.arange(6)[None]
    turns = rotations(positions, torch.zeros_like(positions), head_dim=8, base=10000.0)
    x = torch.randn(2, 6, 32)
    torch.testing.assert_close(grouped(x, turns, None), full(x, turns, None))
