"""Pack: documents to memory-mapped tokens, with held-out documents set aside by document id.

Artifact `tokens`: `train.bin`, `heldout.bin`, `documents.parquet`, `manifest.json` (see `models.token_shards`). A
document's tokens decode to its text exactly: nothing is truncated, and no special token can come out of text.

Which documents are held out depends on their id only, so every stage agrees on it. Of them, at most `max_heldout_bytes`
are kept for scoring, every domain in proportion and none missing; the rest is set aside and counted.
"""

import hashlib
import os
from collections.abc import Iterable, Iterator
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import Field

from infra.artifacts import DedupedCorpus, Tokenizer, Tokens
from infra.errors import BadSpecError
from stages.contract import Headline, Stage, StageContext, StageModel

if TYPE_CHECKING:
    from models.token_shards import TokenDocument
    from stages.records import Document

_DOCUMENTS_PER_BATCH = 1000


class PackConfig(StageModel):
    """What is held out."""

    heldout_ratio: float = Field(
        default=0.08, gt=0, lt=1, description="share of documents set aside by document id, 0-1; equal in every stage"
    )
    max_heldout_bytes: int = Field(
        default=300_000, ge=1, description="held-out text kept for scoring, in bytes; every domain keeps its share"
    )


class PackInputs(StageModel):
    """What pack reads."""

    corpus: DedupedCorpus
    tokenizer: Tokenizer
    frozen: DedupedCorpus | None = None  # its held-out documents are never trained on, wherever they lie now


class PackOutputs(StageModel):
    """What pack writes."""

    tokens: Tokens


def run(config: PackConfig, inputs: PackInputs, ctx: StageContext) -> PackOutputs:
    """Encode every document; first choose what is scored, then write both splits in corpus order."""
    from models.token_shards import TokenWriter
    from models.tokenizer import load_tokenizer
    from stages.records import frozen_ids, read_corpus

    os.environ["TOKENIZERS_PARALLELISM"] = "true"  # this process starts no children that could inherit its threads
    corpus = ctx.store.get(inputs.corpus)
    tokenizer = load_tokenizer(ctx.store.get(inputs.tokenizer))
    sizes = [(d.id, d.domain, len(d.text.encode())) for d in read_corpus(corpus)]
    frozen: frozenset[str] = frozenset()
    if inputs.frozen is not None:
        frozen = frozen_ids(read_corpus(corpus), ctx.store.get(inputs.frozen), config.heldout_ratio)
    heldout_ids, scored_ids = choose_heldout(sizes, config, frozen)
    _check_split(len(sizes), len(heldout_ids))
    end_id = int(tokenizer.eos_token_id)
    writer = TokenWriter(ctx.scratch / "tokens", vocab_size=len(tokenizer), end_id=end_id)
    kept = (d for d in read_corpus(corpus) if d.id not in heldout_ids or d.id in scored_ids)
    num_done, num_total = 0, len(sizes) - len(heldout_ids) + len(scored_ids)
    for documents in _batches(kept):
        encoded = _encode(tokenizer, documents)
        for split, is_heldout in (("train", False), ("heldout", True)):
            writer.add(split, (d for d in encoded if (d.doc_id in scored_ids) is is_heldout))
        num_done += len(documents)
        ctx.progress(num_done, num_total, "documents")
    manifest = writer.close(tokenizer=inputs.tokenizer.digest, num_documents_set_aside=len(heldout_ids - scored_ids))
    for split in ("train", "heldout"):
        for name, value in manifest[split].items():
            ctx.log_metric(f"pack/{split}/{name}", value)
    ctx.log_metric("pack/documents_set_aside", len(heldout_ids - scored_ids))
    ctx.log_metric("pack/bytes_per_token", manifest["train"]["num_bytes"] / max(1, manifest["train"]["num_tokens"]))
    return PackOutputs(tokens=ctx.store.put(ctx.scratch / "tokens", Tokens))


def choose_heldout(
    sizes: list[tuple[str, str, int]], config: PackConfig, frozen: frozenset[str] = frozenset()
) -> tuple[set[str], set[str]]:
    """(all held-out ids, those that are scored) from (id, domain, bytes) of every document; `frozen` are held out, too.

    Each domain may use its share of `max_heldout_bytes`; documents are taken in the order of their ids' hash while they
    fit. A domain in which none fits keeps its smallest one.
    """
    from stages.records import is_held_out

    heldout = [item for item in sizes if item[0] in frozen or is_held_out(item[0], config.heldout_ratio)]
    total_bytes = sum(num_bytes for _, _, num_bytes in heldout)
    scored: set[str] = set()
    for domain in sorted({domain for _, domain, _ in heldout}):
        members = [(doc_id, num_bytes) for doc_id, its_domain, num_bytes in heldout if its_domain == domain]
        members.sort(key=lambda member: hashlib.sha256(member[0].encode()).digest())
        domain_bytes = sum(num_bytes for _, num_bytes in members)
        left = config.max_heldout_bytes * domain_bytes / max(1, total_bytes)
        chosen: list[str] = []
        for doc_id, num_bytes in members:
            if num_bytes <= left:
                chosen.append(doc_id)
                left -= num_bytes
        scored.update(chosen or [min(members, key=lambda member: (member[1], member[0]))[0]])
    return {doc_id for doc_id, _, _ in heldout}, scored


def _check_split(num_documents: int, num_heldout: int) -> None:
    if num_documents == num_heldout:
        raise BadSpecError(
            f"pack: dataset yields 0 steps: want documents to train on, got {num_documents} of which {num_heldout} are "
            f"held out; add documents or lower heldout_ratio"
        )
    if num_heldout == 0:
        raise BadSpecError(
            f"pack: want at least one held-out document, got none of {num_documents}; add documents or raise "
            f"heldout_ratio"
        )


def _batches(documents: Iterable["Document"]) -> Iterator[list["Document"]]:
    waiting = iter(documents)
    while batch := list(islice(waiting, _DOCUMENTS_PER_BATCH)):
        yield batch


def _encode(tokenizer: Any, documents: list["Document"]) -> list["TokenDocument"]:
    from tokenizers import Tokenizer as BackendTokenizer

    from models.token_shards import TokenDocument

    backend = BackendTokenizer.from_str(tokenizer.backend_tokenizer.to_str())
    backend.encode_special_tokens = True  # `<|user|>` written in a document is text, never the role token
    encodings = backend.encode_batch_fast([d.text for d in documents], add_special_tokens=False)
    return [
        TokenDocument(d.id, d.lang, d.domain, len(d.text.encode()), encoding.ids)
        for d, encoding in zip(documents, encodings, strict=True)
    ]


STAGE = Stage(
    name="pack",
    config=PackConfig,
    inputs=PackInputs,
    outputs=PackOutputs,
    run=run,
    metrics=(
        "pack/train/*",
        "pack/heldout/*",
        "pack/documents_set_aside",
        "pack/bytes_per_token",
    ),
    headline=Headline(label="training tokens", after="pack/train/num_tokens"),
)
