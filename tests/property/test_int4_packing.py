"""Packing two 4-bit values to a byte loses nothing, for any shape of stack."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from models.quantized import pack_int4, unpack_int4


@settings(max_examples=100, deadline=None)
@given(seed=st.integers(0, 10_000), leading=st.lists(st.integers(1, 4), max_size=3), half=st.integers(1, 9))
def test_unpack_is_the_exact_inverse_of_pack(seed: int, leading: list[int], half: int) -> None:
    generator = torch.Generator().manual_seed(seed)
    q = torch.randint(-8, 8, (*leading, 2 * half), dtype=torch.int8, generator=generator)
    packed = pack_int4(q)
    assert packed.shape == (*leading, half) and packed.dtype == torch.int8
    assert unpack_int4(packed).equal(q)
