"""Batched generation with a KV cache, the same code for full-precision and quantized models.

Prompts are padded on the left and masked, so a batch of n gives what n single calls give (up to the rounding of matrix
products). A row that is finished leaves the batch. `logprobs` are those of the sampled token under the model's own
distribution (temperature 1, nothing cut), which is what PPO's ratio needs.

Shapes: B rows still running, T prompt tokens, V vocabulary.
"""

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import torch
from transformers import DynamicCache

_GREEDY_BELOW = 1e-4  # logits divided by less overflow in fp32; the likeliest token is all that is left anyway
Generator = torch.Generator | Sequence[torch.Generator] | None  # one for the batch, or one for each of its rows
OnToken = Callable[[int, int, float], None]  # row index, token id, log-probability; it may raise to end the call


@dataclass
class Generation:
    """What one prompt got; the stop token, if any, is the last of `token_ids`."""

    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finished: Literal["stop", "length"] = "length"


@dataclass
class _Rows:
    """The rows still running and their shared cache."""

    row_idx_B: torch.Tensor
    is_real_BS: torch.Tensor
    position_B: torch.Tensor
    block_position_B: torch.Tensor
    cache: Any

    def keep(self, is_running_B: torch.Tensor) -> None:
        self.row_idx_B = self.row_idx_B[is_running_B]
        self.is_real_BS = self.is_real_BS[is_running_B]
        self.position_B = self.position_B[is_running_B]
        self.block_position_B = self.block_position_B[is_running_B]
        self.cache.batch_select_indices(is_running_B.nonzero().squeeze(1))


def generate(
    model: Any,
    prompts: Sequence[Sequence[int]],
    *,
    max_new_tokens: int,
    stop_ids: Collection[int],
    temperature: float = 0.0,
    top_p: float = 1.0,
    generator: Generator = None,
    on_token: OnToken | None = None,
) -> list[Generation]:
    """Continue every prompt as plain text (LM mode); temperature 0 (or below 1e-4) = greedy.

    With one generator a row, what a row samples does not depend on the others.
    """
    if isinstance(generator, Sequence) and len(generator) != len(prompts):
        raise ValueError(f"generator: want one for each of {len(prompts)} prompts, got {len(generator)}")
    prefill = _pad_left(model, prompts)
    return _decode(
        model, prefill, max_new_tokens, frozenset(stop_ids), _Sampler(temperature, top_p, generator), on_token
    )


def fill_blank(
    model: Any,
    part_a: Sequence[Sequence[int]],
    *,
    mask_positions: Sequence[int],
    sop_id: int,
    max_new_tokens: int,
    stop_ids: Collection[int],
    temperature: float = 0.0,
    top_p: float = 1.0,
    generator: Generator = None,
    on_token: OnToken | None = None,
) -> list[Generation]:
    """Fill one blank of every corrupted text: part A, then `sop`, positions as in training.

    `mask_positions[i]` is the index in `part_a[i]` of the mask to fill; other masks may stay in the text.
    """
    for row_idx, (tokens, position) in enumerate(zip(part_a, mask_positions, strict=True)):
        if not 0 <= position < len(tokens):
            raise ValueError(
                f"mask_positions[{row_idx}]: want 0..{len(tokens) - 1}, got {position}; index the mask in part A"
            )
    prefill = _pad_left(model, [[*tokens, sop_id] for tokens in part_a])
    device = prefill["input_ids"].device
    mask_position_B = torch.tensor(list(mask_positions), device=device)
    prefill["position_ids"][:, -1] = mask_position_B
    prefill["block_position_ids"][:, -1] = 1
    prefill["context_length"] = torch.tensor([len(tokens) for tokens in part_a], device=device)
    return _decode(
        model, prefill, max_new_tokens, frozenset(stop_ids), _Sampler(temperature, top_p, generator), on_token
    )


@dataclass(frozen=True)
class _Sampler:
    temperature: float
    top_p: float
    generator: Generator

    def __post_init__(self) -> None:
        if self.temperature < 0 or not 0 < self.top_p <= 1:
            raise ValueError(
                f"temperature, top_p: want temperature >= 0 and 0 < top_p <= 1, got {self.temperature}, {self.top_p}; "
                "temperature 0 is greedy"
            )

    def pick(self, logits_BV: torch.Tensor, row_idx_B: torch.Tensor) -> torch.Tensor:
        if self.temperature < _GREEDY_BELOW:
            return logits_BV.argmax(-1)
        probs_BV = (logits_BV / self.temperature).softmax(-1)
        if self.top_p < 1:
            # Holtzman et al. 2020: the smallest set of tokens whose probability reaches top_p
            sorted_BV, order_BV = torch.sort(probs_BV, dim=-1, descending=True, stable=True)
            is_cut_BV = sorted_BV.cumsum(-1) - sorted_BV >= self.top_p
            probs_BV = torch.zeros_like(probs_BV).scatter_(-1, order_BV, sorted_BV.masked_fill(is_cut_BV, 0.0))
        if self.generator is None or isinstance(self.generator, torch.Generator):
            return torch.multinomial(probs_BV, 1, generator=self.generator).squeeze(-1)
        # the first of V exponential clocks to ring, each at its token's rate (Gumbel-max): two models that are close
        # mostly take the same token with the same random numbers
        clocks = [torch.empty_like(probs_BV[0]).exponential_(generator=self.generator[i]) for i in row_idx_B.tolist()]
        return (probs_BV / torch.stack(clocks)).argmax(-1)


def _pad_left(model: Any, prompts: Sequence[Sequence[int]]) -> dict[str, torch.Tensor]:
    if not prompts or any(len(prompt) == 0 for prompt in prompts):
        raise ValueError("prompts: want at least one, none of them empty, got an empty one; start with a token")
    device = model.device
    length = max(len(prompt) for prompt in prompts)
    pad_id = model.config.pad_token_id or 0
    input_ids = torch.tensor([[pad_id] * (length - len(p)) + list(p) for p in prompts], device=device)
    lengths = torch.tensor([len(prompt) for prompt in prompts], device=device)
    is_real = torch.arange(length, device=device)[None] >= length - lengths[:, None]
    position_ids = (is_real.cumsum(1) - 1).clamp_(min=0)
    return {
        "input_ids": input_ids,
        "attention_mask": is_real,
        "position_ids": position_ids,
        "block_position_ids": torch.zeros_like(position_ids),
    }


@torch.inference_mode()
def _decode(
    model: Any,
    prefill: dict[str, torch.Tensor],
    max_new_tokens: int,
    stop_ids: frozenset[int],
    sampler: _Sampler,
    on_token: OnToken | None,
) -> list[Generation]:
    is_infilling = "context_length" in prefill
    device = prefill["input_ids"].device
    results = [Generation() for _ in range(prefill["input_ids"].shape[0])]
    rows = _Rows(
        row_idx_B=torch.arange(len(results), device=device),
        is_real_BS=prefill["attention_mask"],
        position_B=prefill["position_ids"][:, -1],
        block_position_B=prefill["block_position_ids"][:, -1],
        cache=DynamicCache(config=model.config),
    )
    logits_BV = model(**prefill, cache=rows.cache, use_cache=True, logits_to_keep=1).logits[:, -1].float()
    for step in range(max_new_tokens):
        token_B = sampler.pick(logits_BV, rows.row_idx_B)
        logprob_B = logits_BV.gather(-1, token_B[:, None]).squeeze(-1) - logits_BV.logsumexp(-1)
        is_running_B = _record(results, rows, token_B, logprob_B, stop_ids, on_token)
        if step + 1 == max_new_tokens or not bool(is_running_B.any()):
            break
        if not bool(is_running_B.all()):
            rows.keep(is_running_B)
            token_B = token_B[is_running_B]
        logits_BV = _step(model, rows, token_B, is_infilling=is_infilling)
    return results


def _record(
    results: list[Generation],
    rows: _Rows,
    token_B: torch.Tensor,
    logprob_B: torch.Tensor,
    stop_ids: frozenset[int],
    on_token: OnToken | None,
) -> torch.Tensor:
    """Append the step's tokens; True for rows that go on."""
    is_running: list[bool] = []
    for row_idx, token_id, logprob in zip(rows.row_idx_B.tolist(), token_B.tolist(), logprob_B.tolist(), strict=True):
        result = results[row_idx]
        result.token_ids.append(token_id)
        result.logprobs.append(logprob)
        if token_id in stop_ids:
            result.finished = "stop"
        is_running.append(token_id not in stop_ids)
        if on_token is not None:
            on_token(row_idx, token_id, logprob)
    return torch.tensor(is_running, device=token_B.device)


def _step(model: Any, rows: _Rows, token_B: torch.Tensor, *, is_infilling: bool) -> torch.Tensor:
    """Logits after one more token: in a blank the position stays at the mask and the block position counts."""
    if is_infilling:
        rows.block_position_B = rows.block_position_B + 1
    else:
        rows.position_B = rows.position_B + 1
    rows.is_real_BS = torch.cat((rows.is_real_BS, torch.ones_like(rows.is_real_BS[:, :1])), dim=1)
    output = model(
        input_ids=token_B[:, None],
        attention_mask=rows.is_real_BS,
        position_ids=rows.position_B[:, None],
        block_position_ids=rows.block_position_B[:, None],
        cache=rows.cache,
        use_cache=True,
    )
    logits_BV: torch.Tensor = output.logits[:, -1].float()
    return logits_BV
