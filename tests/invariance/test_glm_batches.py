"""Neither padding, nor its side, nor the rest of the batch changes what the model says about a real token."""

import pytest
import torch

from models.infilling import Infilling, assemble
from tests.support.tiny_glm import VOCAB_SIZE, tiny_glm, tiny_reward_model

LENGTHS = (9, 4, 13)


def _texts() -> list[list[int]]:
    generator = torch.Generator().manual_seed(3)
    return [torch.randint(1, VOCAB_SIZE - 4, (length,), generator=generator).tolist() for length in LENGTHS]


def _padded(rows: list[list[int]], side: str, pad_value: int = 0) -> torch.Tensor:
    length = max(map(len, rows)) + 2
    pads = [[pad_value] * (length - len(row)) for row in rows]
    return torch.tensor([pad + row if side == "left" else row + pad for row, pad in zip(rows, pads, strict=True)])


def _real(values: torch.Tensor, length: int, side: str) -> torch.Tensor:
    return values[-length:] if side == "left" else values[:length]


@pytest.mark.parametrize("side", ["left", "right"])
def test_causal_logits_do_not_depend_on_padding_or_batch(side: str) -> None:
    model, texts = tiny_glm(qk_norm=True), _texts()
    attention_mask = _padded([[1] * len(text) for text in texts], side)
    batch = model(_padded(texts, side, pad_value=5), attention_mask=attention_mask).logits
    for row, text in enumerate(texts):
        alone = model(torch.tensor([text])).logits[0]
        torch.testing.assert_close(_real(batch[row], len(text), side), alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_infilling_logits_do_not_depend_on_padding_or_batch(side: str) -> None:
    model = tiny_glm()
    layouts = [assemble(text, [(1, 2)], mask_id=61, sop_id=62, eop_id=63) for text in _texts()]

    def run(chosen: list[Infilling]) -> torch.Tensor:
        def column(name: str) -> torch.Tensor:
            return _padded([getattr(layout, name) for layout in chosen], side)

        return model(
            column("input_ids"),
            attention_mask=_padded([[1] * len(layout.input_ids) for layout in chosen], side),
            position_ids=column("position_ids"),
            block_position_ids=column("block_position_ids"),
            context_length=torch.tensor([layout.context_length for layout in chosen]),
        ).logits

    batch = run(layouts)
    for row, layout in enumerate(layouts):
        length = len(layout.input_ids)
        alone = _real(run([layout])[0], length, side)
        torch.testing.assert_close(_real(batch[row], length, side), alone, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("side", ["left", "right"])
def test_scores_do_not_depend_on_padding_or_batch(side: str) -> None:
    model, texts = tiny_reward_model(), _texts()
    attention_mask = _padded([[1] * len(text) for text in texts], side)
    batch = model(_padded(texts, side), attention_mask=attention_mask).logits
    alone = torch.cat([model(torch.tensor([text])).logits for text in texts])
    torch.testing.assert_close(batch, alone, rtol=1e-5, atol=1e-5)


def test_router_loads_of_a_batch_are_the_sum_of_the_single_ones() -> None:
    model, texts = tiny_glm(), _texts()
    batch = model(_padded(texts, "right"), attention_mask=_padded([[1] * len(text) for text in texts], "right"))
    for layer in range(2):
        alone = sum(model(torch.tensor([text])).router[layer].counts_E for text in texts)
        assert batch.router[layer].counts_E.equal(alone)


def test_a_forward_and_backward_pass_is_bitwise_repeatable() -> None:
    def gradients() -> list[torch.Tensor]:
        model = tiny_glm()
        tokens = torch.randint(0, VOCAB_SIZE, (4, 32), generator=torch.Generator().manual_seed(0))
        model(tokens, labels=tokens, context_length=torch.tensor([3, 9, 0, 20])).loss.backward()
        return [parameter.grad for parameter in model.parameters()]

    for first, second in zip(gradients(), gradients(), strict=True):
        assert first.equal(second)
