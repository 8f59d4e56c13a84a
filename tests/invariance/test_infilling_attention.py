"""Who sees whom: gradients of a position's logits are exactly zero where it may not look."""

import torch

from models.glm import GlmForCausalLM
from models.infilling import assemble, attend_mask
from tests.support.tiny_glm import tiny_glm

LAYOUT = assemble(list(range(1, 11)), [(2, 2), (6, 3)], mask_id=61, sop_id=62, eop_id=63, order=[1, 0])
LENGTH = len(LAYOUT.input_ids)


def _reach(model: GlmForCausalLM) -> torch.Tensor:
    """[T, T]: how much position t's logits depend on the embedding at position s."""
    embeds = model.get_input_embeddings()(torch.tensor([LAYOUT.input_ids])).detach().requires_grad_()
    logits = model(
        inputs_embeds=embeds,
        position_ids=torch.tensor([LAYOUT.position_ids]),
        block_position_ids=torch.tensor([LAYOUT.block_position_ids]),
        context_length=torch.tensor([LAYOUT.context_length]),
    ).logits[0]
    rows = [
        torch.autograd.grad(logits[t].square().sum(), embeds, retain_graph=True)[0][0].norm(dim=-1)
        for t in range(LENGTH)
    ]
    return torch.stack(rows)


def test_logits_depend_exactly_on_what_the_attend_mask_allows() -> None:
    reach = _reach(tiny_glm())
    allowed = attend_mask(LAYOUT.context_length, LENGTH)
    assert bool((reach[~allowed] == 0).all())
    assert bool((reach[allowed] > 0).all())


def test_part_a_is_read_in_both_directions_and_knows_nothing_of_part_b() -> None:
    reach, context_length = _reach(tiny_glm()), LAYOUT.context_length
    assert bool((reach[:context_length, :context_length] > 0).all())
    assert not reach[:context_length, context_length:].any()


def test_part_b_never_sees_what_comes_later_in_part_b() -> None:
    part_b = _reach(tiny_glm())[LAYOUT.context_length :, LAYOUT.context_length :]
    assert not part_b.triu(1).any()


def test_the_span_that_comes_later_sees_the_earlier_one() -> None:
    first_of_second_span = LAYOUT.context_length + 4
    assert _reach(tiny_glm())[first_of_second_span, LAYOUT.context_length] > 0
