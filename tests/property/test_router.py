"""The router's gates are a distribution over distinct experts, whatever the scores and the bias are."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.moe import route


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), top_k=st.integers(1, 4), groups=st.sampled_from([(1, 1), (2, 1), (4, 2), (4, 4)]))
def test_gates_sum_to_the_scale_over_distinct_experts(seed: int, top_k: int, groups: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(seed)
    scores = torch.rand(5, 16, generator=generator)
    bias = torch.randn(16, generator=generator)
    gate, expert_idx = route(
        scores, bias, top_k=top_k, num_groups=groups[0], top_groups=groups[1], routed_scaling_factor=2.5
    )
    torch.testing.assert_close(gate.sum(-1), torch.full((5,), 2.5))
    assert all(len(set(row)) == top_k for row in expert_idx.tolist())
    used_groups = [{expert // (16 // groups[0]) for expert in row} for row in expert_idx.tolist()]
    assert max(map(len, used_groups)) <= groups[1]
