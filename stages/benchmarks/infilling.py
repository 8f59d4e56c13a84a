"""Blank infilling: how often the likeliest token is the right one inside [MASK] spans of held-out documents.

Every document has its own generator, seeded by its id, so the same spans are asked of every model. Tokens of a span are
predicted one after the other with the true ones before them; the end of a span is not counted.
"""

import hashlib
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from stages.benchmarks.base import Benchmark, Measurement
from stages.means import mean_and_stderr
from stages.subject import Subject

if TYPE_CHECKING:
    from models.infilling import Infilling

_MIN_TOKENS = 8


class InfillingAccuracy(Benchmark):
    """Exact-token accuracy on masked spans, in all and by language."""

    kind: Literal["infilling"] = "infilling"
    max_documents: int = Field(default=160, ge=1, description="documents asked, the first in the order of their hash")
    max_tokens: int = Field(default=192, ge=_MIN_TOKENS, description="tokens taken from the beginning of a document")
    mask_ratio: float = Field(default=0.15, gt=0, lt=1, description="share of the tokens that is masked")
    mean_span_length: float = Field(default=3.0, ge=1, description="mean of the Poisson law of span lengths, tokens")
    batch_size: int = Field(default=16, ge=1, description="documents in one forward pass")

    def measure(self, subject: Subject) -> Measurement:
        """Ask every span."""
        split = subject.shards.heldout
        long_enough = [index for index in range(len(split)) if split.num_tokens_N[index] >= _MIN_TOKENS]
        chosen = sorted(long_enough, key=lambda index: _digest(split.doc_ids[index]))[: self.max_documents]
        if not chosen:
            return Measurement({})
        asked = [self._blank(subject, split.doc_ids[index], split.tokens(index)) for index in chosen]
        shares: list[float] = []
        for start in range(0, len(asked), self.batch_size):
            shares += _token_accuracy(subject, asked[start : start + self.batch_size])
            subject.progress(len(shares), len(asked), "documents")
        by_lang: dict[str, list[float]] = {}
        for index, share in zip(chosen, shares, strict=True):
            by_lang.setdefault(split.langs[index], []).append(share)
        mean, stderr = mean_and_stderr(shares)
        metrics = {"eval/infilling_accuracy": mean, "eval/infilling_stderr": stderr}
        for lang, values in sorted(by_lang.items()):
            metrics[f"eval/infilling_accuracy/lang/{lang}"] = mean_and_stderr(values)[0]
        return Measurement(metrics)

    def _blank(self, subject: Subject, doc_id: str, tokens: Any) -> "Infilling":
        import numpy as np

        from models.infilling import assemble, sample_spans

        rng = np.random.default_rng(int.from_bytes(_digest(doc_id)[:8], "big"))
        token_ids = [int(token) for token in tokens[: self.max_tokens]]
        spans = sample_spans(rng, len(token_ids), mask_ratio=self.mask_ratio, mean_span_length=self.mean_span_length)
        mask_id, sop_id, eop_id = (subject.template.token_id(name) for name in ("[MASK]", "<sop>", "<eop>"))
        order = rng.permutation(len(spans)).tolist()
        return assemble(token_ids, spans, mask_id=mask_id, sop_id=sop_id, eop_id=eop_id, order=order)


def _digest(doc_id: str) -> bytes:
    return hashlib.sha256(f"infilling:{doc_id}".encode()).digest()


def _token_accuracy(subject: Subject, batch: "list[Infilling]") -> list[float]:
    """Share of right tokens in each sequence."""
    import torch

    length = max(len(infilling.input_ids) for infilling in batch)

    def padded(values: list[list[int]]) -> torch.Tensor:
        return torch.tensor([row + [0] * (length - len(row)) for row in values])

    targets_BT = padded([infilling.targets for infilling in batch])
    is_real_BT = padded([[1] * len(infilling.input_ids) for infilling in batch]).bool()
    is_asked_BT = padded([[int(flag) for flag in infilling.loss_mask] for infilling in batch]).bool()
    is_asked_BT &= targets_BT != subject.template.token_id("<eop>")
    with torch.inference_mode():
        hidden_BTD = subject.model.model(
            input_ids=padded([infilling.input_ids for infilling in batch]),
            attention_mask=is_real_BT,
            position_ids=padded([infilling.position_ids for infilling in batch]),
            block_position_ids=padded([infilling.block_position_ids for infilling in batch]),
            context_length=torch.tensor([infilling.context_length for infilling in batch]),
        ).hidden_BTD
        is_right = subject.model.lm_head(hidden_BTD[is_asked_BT]).argmax(-1) == targets_BT[is_asked_BT]
    parts = is_right.double().split(is_asked_BT.sum(1).tolist())
    return [float(part.mean()) for part in parts]
