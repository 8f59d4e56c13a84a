"""Stage `dedup`: one copy of each document, exact and near, at document level.

Exact: equal text after lower-casing and joining white space. Near: verified MinHash (see stages/minhash.py). Every
removed document has a kept twin, named in the report. The kept ones stay in their order.
"""

import hashlib

from pydantic import Field, PositiveInt

from infra.artifacts import CleanCorpus, DedupedCorpus
from stages.contract import Headline, Stage, StageContext, StageModel


class DedupConfig(StageModel):
    """What counts as a near-duplicate, and how hard to look."""

    min_jaccard: float = Field(default=0.8, gt=0, le=1, description="verified similarity of 5-token shingles, 0-1")
    num_bands: PositiveInt = Field(default=20, description="LSH bands; more find more candidates")
    rows_per_band: PositiveInt = Field(default=6, description="hashes a band; more make candidates rarer")


class DedupInputs(StageModel):
    """Documents with their language."""

    corpus: CleanCorpus


class DedupOutputs(StageModel):
    """Documents without duplicates."""

    corpus: DedupedCorpus


def run(config: DedupConfig, inputs: DedupInputs, ctx: StageContext) -> DedupOutputs:
    """Write the kept documents and which twin covers each removed one."""
    from stages.minhash import find_near_duplicates
    from stages.records import CorpusWriter, read_corpus, write_report

    documents = list(read_corpus(ctx.store.get(inputs.corpus)))
    first_with: dict[bytes, int] = {}
    twin_of: dict[int, int] = {}
    for i, document in enumerate(documents):
        same = first_with.setdefault(_exact_key(document.text), i)
        if same != i:
            twin_of[i] = same
    num_exact = len(twin_of)
    distinct = [i for i in range(len(documents)) if i not in twin_of]
    ctx.progress(1, 3, "passes")
    found = find_near_duplicates(
        [documents[i].text for i in distinct],
        min_jaccard=config.min_jaccard,
        num_bands=config.num_bands,
        rows_per_band=config.rows_per_band,
    )
    ctx.progress(2, 3, "passes")
    twin_of |= {distinct[i]: distinct[j] for i, j in found.twin_of.items()}
    twin_of = {i: twin_of.get(j, j) for i, j in twin_of.items()}  # an exact copy's twin may be a removed near-duplicate
    out = ctx.scratch / "corpus"
    writer = CorpusWriter(out)
    num_bytes = 0
    for i, document in enumerate(documents):
        if i not in twin_of:
            writer.write(document)
            num_bytes += len(document.text.encode())
    writer.close()
    counts = {
        "docs_in": len(documents),
        "docs_kept": len(documents) - len(twin_of),
        "exact_removed": num_exact,
        "near_removed": len(found.twin_of),
        "candidate_pairs": found.num_candidates,
        "verified_pairs": found.num_verified,
        "capped_buckets": found.num_capped_buckets,
        "bytes_kept": num_bytes,
    }
    write_report(out, counts | {"kept_twin": {documents[i].id: documents[j].id for i, j in sorted(twin_of.items())}})
    for name, value in counts.items():
        ctx.log_metric(f"dedup/{name}", value)
    ctx.progress(3, 3, "passes")
    return DedupOutputs(corpus=ctx.store.put(out, DedupedCorpus))


def _exact_key(text: str) -> bytes:
    return hashlib.sha256(" ".join(text.lower().split()).encode()).digest()


STAGE = Stage(
    name="dedup",
    config=DedupConfig,
    inputs=DedupInputs,
    outputs=DedupOutputs,
    run=run,
    metrics=("dedup/*",),
    headline=Headline("documents", before="dedup/docs_in", after="dedup/docs_kept"),
)
