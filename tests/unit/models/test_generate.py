import pytest
import torch

from models.generate import fill_blank, generate
from models.infilling import assemble
from models.quantized import quantize_model
from tests.support.tiny_glm import tiny_glm

PROMPTS = [[1, 2, 3], [4, 5, 6, 7, 8, 9], [10], [11, 12]]
MASK, SOP, EOP = 60, 61, 62


def _step_by_step(prompt: list[int], num_tokens: int) -> tuple[list[int], list[float]]:
    model, tokens, logprobs = tiny_glm().requires_grad_(False), list(prompt), []
    for _ in range(num_tokens):
        step_logprobs = model(torch.tensor([tokens])).logits[0, -1].log_softmax(-1)
        tokens.append(int(step_logprobs.argmax()))
        logprobs.append(float(step_logprobs.max()))
    return tokens[len(prompt) :], logprobs


def test_greedy_tokens_and_logprobs_equal_the_model_without_a_cache() -> None:
    results = generate(tiny_glm(), PROMPTS, max_new_tokens=6, stop_ids=[])
    for prompt, result in zip(PROMPTS, results, strict=True):
        tokens, logprobs = _step_by_step(prompt, 6)
        assert result.token_ids == tokens and result.finished == "length"
        assert result.logprobs == pytest.approx(logprobs, abs=1e-4)


@pytest.mark.parametrize("bits", [None, 8, 4])
def test_a_batch_gives_what_single_calls_give(bits: int | None) -> None:
    model = tiny_glm()
    if bits:
        model = quantize_model(model, bits=bits, group_size=16)
    stop_ids = {generate(model, PROMPTS[:1], max_new_tokens=3, stop_ids=[])[0].token_ids[-1]}
    together = generate(model, PROMPTS, max_new_tokens=8, stop_ids=stop_ids)
    for prompt, result in zip(PROMPTS, together, strict=True):
        (alone,) = generate(model, [prompt], max_new_tokens=8, stop_ids=stop_ids)
        assert (result.token_ids, result.finished) == (alone.token_ids, alone.finished)
        assert result.logprobs == pytest.approx(alone.logprobs, abs=1e-4)
    assert together[0].finished == "stop" and together[0].token_ids[-1] in stop_ids


def test_sampling_is_a_function_of_the_generator_and_logprobs_are_the_models_own() -> None:
    def sample(seed: int) -> list[list[int]]:
        results = generate(
            tiny_glm(),
            PROMPTS,
            max_new_tokens=5,
            stop_ids=[],
            temperature=1.5,
            top_p=0.9,
            generator=torch.Generator().manual_seed(seed),
        )
        logits = tiny_glm()(torch.tensor([PROMPTS[2] + results[2].token_ids])).logits[0]
        expected = logits.log_softmax(-1)[:-1].gather(1, torch.tensor(results[2].token_ids)[:, None])[:, 0]
        assert results[2].logprobs == pytest.approx(expected.tolist(), abs=1e-4)
        return [result.token_ids for result in results]

    assert sample(0) == sample(0) != sample(1)


def test_with_a_generator_a_row_an_answer_does_not_depend_on_the_batch() -> None:
    def sampled(rows: list[int]) -> list[list[int]]:
        results = generate(
            tiny_glm(),
            [PROMPTS[row] for row in rows],
            max_new_tokens=5,
            stop_ids=[],
            temperature=1.5,
            generator=[torch.Generator().manual_seed(row) for row in rows],
        )
        return [result.token_ids for result in results]

    together = sampled([0, 1, 2, 3])
    assert together == [sampled([row])[0] for row in range(4)] == sampled([3, 2, 1, 0])[::-1]
    with pytest.raises(ValueError, match="generator: want one for each of 4 prompts, got 1"):
        generate(tiny_glm(), PROMPTS, max_new_tokens=1, stop_ids=[], generator=[torch.Generator()])


def test_a_generator_a_row_samples_the_models_distribution() -> None:
    probs = tiny_glm()(torch.tensor([[1, 2, 3]])).logits[0, -1].softmax(-1)
    draws = 4000
    results = generate(
        tiny_glm(),
        [[1, 2, 3]] * draws,
        max_new_tokens=1,
        stop_ids=[],
        temperature=1.0,
        generator=[torch.Generator().manual_seed(row) for row in range(draws)],
    )
    counts = torch.bincount(torch.tensor([result.token_ids[0] for result in results]), minlength=len(probs))
    chi_square = ((counts - draws * probs) ** 2 / (draws * probs)).sum()
    assert abs(chi_square - (len(probs) - 1)) < 5 * (2 * (len(probs) - 1)) ** 0.5  # its mean and standard deviation


@pytest.mark.parametrize("temperature", [1e-5, 1e-30, 1e-300])
def test_a_tiny_temperature_is_greedy(temperature: float) -> None:
    greedy = generate(tiny_glm(), PROMPTS, max_new_tokens=5, stop_ids=[])
    sampled = generate(tiny_glm(), PROMPTS, max_new_tokens=5, stop_ids=[], temperature=temperature)
    assert [r.token_ids for r in greedy] == [r.token_ids for r in sampled]


def test_a_tiny_top_p_is_greedy() -> None:
    greedy = generate(tiny_glm(), PROMPTS, max_new_tokens=5, stop_ids=[])
    nucleus = generate(tiny_glm(), PROMPTS, max_new_tokens=5, stop_ids=[], temperature=1.0, top_p=1e-6)
    assert [r.token_ids for r in greedy] == [r.token_ids for r in nucleus]


def test_every_token_is_reported_with_its_logprob_as_it_comes() -> None:
    seen: dict[int, list[tuple[int, float]]] = {0: [], 1: []}

    def note(row: int, token: int, logprob: float) -> None:
        seen[row].append((token, logprob))

    results = generate(tiny_glm(), PROMPTS[:2], max_new_tokens=4, stop_ids=[], on_token=note)
    assert [seen[0], seen[1]] == [list(zip(r.token_ids, r.logprobs, strict=True)) for r in results]


def test_filling_a_blank_uses_the_positions_of_training() -> None:
    model = tiny_glm()
    texts = [list(range(10, 20)), list(range(30, 36))]
    spans = [(4, 3), (2, 1)]
    part_a = [
        [*text[:start], MASK, *text[start + length :]] for text, (start, length) in zip(texts, spans, strict=True)
    ]
    results = fill_blank(model, part_a, mask_positions=[4, 2], sop_id=SOP, max_new_tokens=5, stop_ids=[])
    for text, (start, length), result in zip(texts, spans, results, strict=True):
        # teacher forcing on the training layout of "the generated tokens stood in the blank" must reproduce them
        filled = text[:start] + result.token_ids + text[start + length :]
        layout = assemble(filled, [(start, len(result.token_ids))], mask_id=MASK, sop_id=SOP, eop_id=EOP)
        logits = model(
            torch.tensor([layout.input_ids]),
            position_ids=torch.tensor([layout.position_ids]),
            block_position_ids=torch.tensor([layout.block_position_ids]),
            context_length=torch.tensor([layout.context_length]),
        ).logits[0, layout.context_length : -1]
        assert logits.argmax(-1).tolist() == result.token_ids
        expected = logits.log_softmax(-1).max(-1).values
        assert result.logprobs == pytest.approx(expected.tolist(), abs=1e-4)


def test_requests_that_make_no_sense_are_refused() -> None:
    model = tiny_glm()
    with pytest.raises(ValueError, match="prompts: want at least one, none of them empty"):
        generate(model, [[1], []], max_new_tokens=1, stop_ids=[])
    with pytest.raises(ValueError, match="temperature, top_p: want temperature >= 0"):
        generate(model, [[1]], max_new_tokens=1, stop_ids=[], temperature=1.0, top_p=0.0)
    with pytest.raises(ValueError, match=r"mask_positions\[0\]: want 0\.\.1, got 2"):
        fill_blank(model, [[1, 2]], mask_positions=[2], sop_id=SOP, max_new_tokens=1, stop_ids=[])
